// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReserveByModel: a model's reserve goes before that of all, and that before the
// driver's own figure.
func TestReserveByModel(t *testing.T) {
	for _, tc := range []struct {
		all    int64
		models map[string]int64
		gib    int // of 2 × 80, 2 × 40 and 15 GiB
	}{
		{-1, nil, 255},
		{1024, nil, 250},
		{-1, map[string]int64{"Tesla-T4": 360}, 254},
		{1024, map[string]int64{"Tesla-T4": 0, "NVIDIA-A100-SXM4-40GB": 4096, "NVIDIA-L4": 1}, 245},
	} {
		w := newWorld(t, "mixed")
		w.opts.ReserveMiB, w.opts.ReserveModels = tc.all, tc.models
		w.kubelet.start()
		w.run()
		if got := w.kubelet.healthy(memory); got != tc.gib {
			t.Errorf("%d MiB and %v: %d GiB, want %d", tc.all, tc.models, got, tc.gib)
		}
		w.stop()
	}
}

const crowded = "gpus: [{model: Tesla V100, memoryMiB: 16384, usedMiB: 10240}, {model: Tesla V100, memoryMiB: 16384, usedMiB: 40}]"

func crowdedWorld(t *testing.T, policy string) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "crowded.yaml")
	if err := os.WriteFile(file, []byte(crowded), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, file)
	w.opts.ForeignMemory = policy
	w.kubelet.start()
	w.run()
	return w
}

// TestForeignMemory is row D 19 (HAMi #1069, #1292): 10 of 16 GiB are in use with no
// pod on the node.
func TestForeignMemory(t *testing.T) {
	for policy, want := range map[string]struct {
		gib  int
		tell string
	}{
		"subtract": {6 + 16, "containers are given 6144 MiB"},
		"warn":     {16 + 16, "containers may find less than they were promised"},
		"ignore":   {16 + 16, ""},
	} {
		t.Run(policy, func(t *testing.T) {
			w := crowdedWorld(t, policy)
			if got := w.kubelet.healthy(memory); got != want.gib {
				t.Errorf("%d GiB, want %d", got, want.gib)
			}
			if want.tell != "" {
				w.event("ForeignGPUMemory", fmt.Sprintf("10240 of 16384 MiB of GPU %s were in use before any container held it: %s", w.gpus[0].UUID, want.tell))
				return
			}
			time.Sleep(50 * time.Millisecond)
			list, _ := w.client.CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
			if len(list.Items) > 0 {
				t.Errorf("events: %+v", list.Items)
			}
		})
	}
}

// TestAHeldCardKeepsItsSize: what our containers use must not count as foreign at
// the next start, and the size that they were given a part of stays.
func TestAHeldCardKeepsItsSize(t *testing.T) {
	w := crowdedWorld(t, "subtract")
	p := w.bind("a", want{"main", memory, 6, []int{0}})
	w.mustAdmit(p)
	w.agree(p, "main")
	eventually(t, 5*time.Second, "the inventory", func() bool { return w.inventory().GPUs[0].MemoryMiB == 6144 })
	w.stop()
	w.machine.SetProcesses(0)
	w.run()
	eventually(t, 5*time.Second, "6 GiB held and 16 free", func() bool { return w.kubelet.healthy(memory) == 22 && w.kubelet.healthy(whole) == 1 })
	if got := w.inventory().GPUs[0].MemoryMiB; got != 6144 {
		t.Errorf("the card has %d MiB after a restart, want 6144", got)
	}
}
