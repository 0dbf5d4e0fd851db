// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	"github.com/fairslice/fairslice/core/amount"
)

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		resource string
		amount   amount.Amount
		want     string
	}{
		{"gpu", 8000, "8 GPUs"},
		{"gpu", 1000, "1 GPU"},
		{"gpu", 7500, "7.5 GPUs"},
		{"gpu", 5, "0.005 GPUs"},
		{"gpu", 0, "0 GPUs"},
		{"gpu", -500, "-0.5 GPUs"},
		{"gpu", amount.Unlimited, "unlimited GPUs"},
		{"gpu.NVIDIA-H100", 2000, "2 NVIDIA-H100 GPUs"},
		{"cpu", 1000, "1 CPU core"},
		{"cpu", 996, "0.996 CPU cores"},
		{"memory", 0, "0 B of memory"},
		{"memory", 1023, "1023 B of memory"},
		{"memory", 1536 << 20, "1.5 GiB of memory"},
		{"memory", 1_000_000_000, "953.674 MiB of memory"},
		{"memory", 1 << 60, "1 EiB of memory"},
		{"memory", 1<<60 + 1<<59, "1.5 EiB of memory"},
		{"memory", 3 << 50, "3 PiB of memory"},
		{"memory", -2048, "-2 KiB of memory"},
		{"pods", 1, "1 pod slot"},
		{"mig-1g.10gb", 3, "3 mig-1g.10gb instances"},
		{"example.com/fpga", 2, "2 example.com/fpga"},
	} {
		if got := Quantity(c.resource, c.amount); got != c.want {
			t.Errorf("Quantity(%q, %d) = %q, want %q", c.resource, c.amount, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		resource string
		amount   amount.Amount
		want     string
	}{
		{"gpu", 7500, "7.5"},
		{"cpu", 1250, "1.25"},
		{"memory", 512 << 20, "512 MiB"},
		{"pods", 110, "110"},
	} {
		if got := Number(c.resource, c.amount); got != c.want {
			t.Errorf("Number(%q, %d) = %q, want %q", c.resource, c.amount, got, c.want)
		}
	}
}
