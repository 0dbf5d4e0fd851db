// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"testing"

	"github.com/fairslice/fairslice/core/model"
)

// Reports about GPU sharing; see docs/gpu-sharing-reports.md.

// Report 15 (KAI #416): memory is counted in MiB and never as a rounded fraction.
func TestReport15ManySmallPods(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	w.node("n1", 1, func(n *model.Node) { n.GPUs[0].MemoryMiB = 46068 })
	for _, name := range []string{"a", "b", "c"} {
		w.submit(job{name: name, queue: "q", memMiB: 2000, pods: 8})
	}
	w.settle()
	running := 0
	for _, p := range w.pods {
		if p.State == model.Bound {
			running++
		}
	}
	if running != 23 {
		t.Errorf("%d pods of 2000 MiB run on 46068 MiB, want 23", running)
	}
}

// Report 18 (HAMi #1820): a card that says it has no memory is passed over.
func TestReport18CardWithoutMemory(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	w.node("n1", 2, func(n *model.Node) { n.GPUs[0].MemoryMiB = 0 })
	w.submit(job{name: "P", queue: "q", memMiB: 4096})
	w.submit(job{name: "Q", queue: "q", memMiB: 4096})
	w.settle()
	w.wantRunning("both are on the card that has memory", map[string]int{"P": 1, "Q": 1})
	for _, uid := range []string{"P-000", "Q-000"} {
		live, _ := w.c.Pod(uid)
		if len(live.Held) != 1 || live.Held[0].GPU != "1" {
			t.Errorf("%s holds %v, want a part of GPU 1", uid, live.Held)
		}
	}
}
