// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"testing"

	"github.com/fairslice/fairslice/deviceplugin/nvml"
)

// TestReserveOfModels: each model has a default of its own, by the driver's name of
// it; options replace it; simulated cards have no contexts.
func TestReserveOfModels(t *testing.T) {
	for model, context := range map[string]int64{
		"NVIDIA H100 80GB HBM3":          423,
		"NVIDIA H100 PCIe":               365,
		"NVIDIA H200":                    423,
		"NVIDIA H20":                     250,
		"NVIDIA GH200 480GB":             423,
		"NVIDIA B200":                    474,
		"NVIDIA A100-SXM4-40GB":          346,
		"NVIDIA A100 80GB PCIe":          346,
		"NVIDIA A10":                     231,
		"NVIDIA A10G":                    256,
		"NVIDIA L4":                      186,
		"NVIDIA L40S":                    455,
		"NVIDIA RTX 6000 Ada Generation": 455,
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": 602,
		"NVIDIA RTX A6000":      269,
		"Tesla T4":              128,
		"Tesla V100-SXM2-16GB":  256,
		"NVIDIA A2":             32,
		"Some card of tomorrow": 600,
		"NVIDIA H1000":          600,
	} {
		g := nvml.GPU{Model: model, TotalMiB: 16384, ReservedMiB: 500}
		o := DefaultOptions()
		check := func(what string, want int64, simulated bool) {
			t.Helper()
			if got := o.reserve(g, simulated); got != want {
				t.Errorf("%s, %s: %d MiB, want %d", model, what, got, want)
			}
		}
		check("by default", 500+context, false)
		check("simulated", 500, true)
		o.MaxSharers = 4
		check("four sharers", 500+4*context, false)
		o.ReserveMiB = 1000
		check("one reserve for all", 1000, false)
		o.ReserveModels = map[string]int64{publishName(model): 300}
		check("its own reserve", 300, false)
	}
}

func publishName(model string) string { c := card{hardware: nvml.GPU{Model: model}}; return c.model() }

// TestReportedContextsFit: the rule covers the reports that it is made of.
func TestReportedContextsFit(t *testing.T) {
	for sms, mib := range map[int64]int64{34: 107, 82: 256, 188: 555} {
		if got := (sms*contextPerTenSMs + 9) / 10; got < mib || got > mib+50 {
			t.Errorf("%d multiprocessors: %d MiB, the report says %d", sms, got, mib)
		}
	}
}

// TestAHeldCardKeepsItsSizeWhateverItsReserve: containers hold parts of the old size.
func TestAHeldCardKeepsItsSizeWhateverItsReserve(t *testing.T) {
	g := nvml.GPU{UUID: "GPU-a", TotalMiB: 16384, ReservedMiB: 384}
	held := true
	s := sizing{policy: ForeignWarn, previous: map[string]int64{"GPU-a": 15000}, held: func(string) bool { return held }, reserve: func(nvml.GPU) int64 { return 2384 }}
	if mib, _ := s.usable(g, "a"); mib != 15000 {
		t.Errorf("held: %d MiB, want 15000", mib)
	}
	held = false
	if mib, _ := s.usable(g, "a"); mib != 14000 {
		t.Errorf("idle: %d MiB, want 14000", mib)
	}
	held, s.previous["GPU-a"] = true, 99999 // what the card cannot have
	if mib, _ := s.usable(g, "a"); mib != 14000 {
		t.Errorf("with an impossible size: %d MiB, want 14000", mib)
	}
}
