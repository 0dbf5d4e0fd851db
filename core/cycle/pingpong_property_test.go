// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// No ping-pong: with evicted pods resubmitted, evictions stop once the load stops
// changing, whatever the queues, shares and priorities are. Every state on the way
// keeps the invariants of checkPlan and checkCluster.
func TestEvictionsStopWhenTheLoadStopsChanging(t *testing.T) {
	const cycles = 200
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for i := range rapid.IntRange(2, 8).Draw(t, "later changes") {
			for range rapid.IntRange(0, 4).Draw(t, "cycles between") {
				w.cycle()
			}
			if rapid.IntRange(0, 3).Draw(t, "finish") == 3 {
				w.finish(fmt.Sprint("j", rapid.IntRange(0, 5).Draw(t, "which")))
				continue
			}
			var leaves []string
			tree := w.c.Tree()
			for q := range tree.Queues {
				if tree.Leaf(q) {
					leaves = append(leaves, tree.Queues[q].Name)
				}
			}
			w.submitDrawn(t, fmt.Sprint("late", i), rapid.SampledFrom(leaves).Draw(t, "queue"))
		}
		still := 0
		for range cycles {
			// A plan that changes nothing comes out again; 30 in a row are enough, as
			// no job is protected or delayed for longer than 20 seconds.
			if still++; w.cycle() {
				still = 0
			} else if still == 30 {
				return
			}
		}
		t.Fatalf("%d cycles of an unchanged load, and the last plan still evicts: %+v\nevicted so far: %v", cycles, w.plan.Evictions, w.evicted)
	})
}
