// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/cycle"
)

// A promise stands: once a plan is obeyed, the next one, with nothing changed and no
// time passed, withdraws no promise, evicts nobody who was just given room that
// others had to leave, and moves nobody. Where jobs displace each other in a ring (W8)
// it may go on from there, but not back.
func TestObeyedPlanStands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 5).Draw(t, "cycles") {
			w.cycle()
		}
		placed := map[string]cycle.Placement{}
		for _, x := range w.plan.Placements {
			placed[x.Pod] = x
		}
		w.c.SetBudgets(w.budgets()) // as of what runs now
		second := cycle.Decide(w.c)
		for _, uid := range second.Withdrawn {
			t.Fatalf("the promise of %s is withdrawn; it was %+v", uid, placed[uid])
		}
		for _, e := range second.Evictions {
			if x, ours := placed[e.Pod]; ours && len(x.Awaits) > 0 {
				t.Fatalf("%s was just placed, %+v, and is evicted: %+v", e.Pod, x, e)
			}
		}
		for _, x := range second.Placements {
			if y, ours := placed[x.Pod]; ours && x.Node != y.Node {
				t.Fatalf("%s was placed on %s and now on %s", x.Pod, y.Node, x.Node)
			}
		}
	})
}
