// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/cycle"
)

// A plan is whole: once it is obeyed, the next one, with nothing changed and no time
// passed, is empty.
func TestObeyedPlanLeavesNothingToDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 5).Draw(t, "cycles") {
			w.cycle()
		}
		waited := map[string]bool{}
		for _, x := range w.plan.Placements {
			waited[x.Pod] = len(x.Awaits) > 0
		}
		w.c.SetBudgets(w.budgets()) // as of what runs now
		second := cycle.Decide(w.c)
		for _, uid := range second.Withdrawn {
			t.Errorf("the promise of %s is withdrawn", uid)
		}
		for _, e := range second.Evictions {
			t.Errorf("%s is evicted by %s for %s", e.Pod, e.Rule, e.For)
		}
		for _, x := range second.Placements {
			if !x.Kept || waited[x.Pod] && len(x.Awaits) == 0 {
				t.Errorf("%s is placed on %s %v, awaiting %v", x.Pod, x.Node, x.GPUs, x.Awaits)
			}
		}
		if t.Failed() {
			t.Fatalf("first plan: %+v\nsecond plan: %+v", w.plan, second)
		}
	})
}
