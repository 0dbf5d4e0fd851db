// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

// Every plan on every random cluster keeps what docs/decisions.md promises, and
// leaves the cluster as it found it.
func TestPlansKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		budgets := drawBudgets(t, w)
		for range rapid.IntRange(1, 5).Draw(t, "cycles") {
			w.c.SetBudgets(budgets)
			w.c.Settle()
			before := w.c.Digest()
			plan := cycle.Decide(w.c)
			if w.c.Digest() != before {
				t.Fatal("the decision left a trace in the cluster")
			}
			checkGangs(t, w, plan)
			checkRoom(t, w, plan)
			checkVictims(t, w, plan, budgets)
			w.cycle()
			if rapid.IntRange(0, 3).Draw(t, "finish") == 0 {
				w.finish(fmt.Sprint("j", rapid.IntRange(0, 5).Draw(t, "which")))
			}
		}
	})
}

// drawBudgets covers some jobs' pods with budgets of few evictions.
func drawBudgets(t *rapid.T, w *world) []model.DisruptionBudget {
	var out []model.DisruptionBudget
	for i := range rapid.IntRange(0, 3).Draw(t, "budgets") {
		b := model.DisruptionBudget{Key: fmt.Sprint("ns/b", i), Allowed: rapid.IntRange(0, 2).Draw(t, "allowed")}
		name := fmt.Sprintf("j%d-", rapid.IntRange(0, 5).Draw(t, "covers"))
		for n := range 40 { // also pods that are yet to come
			b.Pods = append(b.Pods, fmt.Sprintf("%s%03d", name, n))
		}
		out = append(out, b)
	}
	return out
}

// checkGangs: no gang is started in part.
func checkGangs(t *rapid.T, w *world, plan cycle.Plan) {
	starts, evicted := map[string]int{}, map[string]bool{}
	for _, x := range plan.Placements {
		if len(x.Awaits) == 0 {
			starts[x.Workload]++
		}
	}
	for _, e := range plan.Evictions {
		evicted[e.Pod] = e.MoveTo == nil // a member on the move has its place
	}
	for key, n := range starts {
		spec, _ := w.c.Workload(key)
		runs := 0
		for uid, p := range w.pods {
			if p.Workload == key && p.State == model.Bound && !evicted[uid] {
				runs++
			}
		}
		if runs+n < spec.MinMember {
			t.Fatalf("gang %s starts with %d of %d: %+v %+v", key, runs+n, spec.MinMember, plan.Placements, plan.Evictions)
		}
	}
}

type card struct{ node, gpu string }

// checkRoom: what runs on, what was promised and what is placed fits each GPU
// together, in thousandths and in MiB, and what starts now fits beside what is
// still leaving.
func checkRoom(t *rapid.T, w *world, plan cycle.Plan) {
	booked, held := map[card]model.HeldGPU{}, map[card]model.HeldGPU{}
	add := func(m map[card]model.HeldGPU, node string, gpus []model.HeldGPU) {
		for _, h := range gpus {
			c := card{node, h.GPU}
			m[c] = model.HeldGPU{Milli: m[c].Milli + h.Milli, MemoryMiB: m[c].MemoryMiB + h.MemoryMiB}
		}
	}
	evicted, placed := map[string]bool{}, map[string]bool{}
	for _, e := range plan.Evictions {
		evicted[e.Pod] = true
		if e.MoveTo != nil {
			add(booked, e.MoveTo.Node, e.MoveTo.GPUs)
		}
	}
	for _, x := range plan.Placements {
		placed[x.Pod] = true
		add(booked, x.Node, x.GPUs)
		if len(x.Awaits) == 0 {
			add(held, x.Node, x.GPUs)
		}
	}
	for uid := range w.pods {
		p, _ := w.c.Pod(uid)
		if p.State == model.Bound || p.State == model.Releasing {
			add(held, p.Node, p.Held)
		}
		if p.State == model.Bound && !evicted[uid] && !placed[uid] {
			add(booked, p.Node, p.Held)
		}
	}
	for what, load := range map[string]map[card]model.HeldGPU{"booked": booked, "held": held} {
		for c, h := range load {
			if h.Milli > 1000 || h.MemoryMiB > 16384 {
				t.Fatalf("GPU %s of %s is %s with %d thousandths and %d MiB", c.gpu, c.node, what, h.Milli, h.MemoryMiB)
			}
		}
	}
}

// checkVictims: nobody is evicted against a budget, for nobody, or moved who
// would not come back.
func checkVictims(t *rapid.T, w *world, plan cycle.Plan, budgets []model.DisruptionBudget) {
	used := map[string]int{}
	for _, e := range plan.Evictions {
		spec, _ := w.c.Workload(e.Workload)
		if e.MoveTo != nil && !spec.Recreated {
			t.Fatalf("%s is moved, and nothing would recreate it", e.Pod)
		}
		if e.Rule != cycle.RuleStaleGang && !spec.Preemptible {
			t.Fatalf("%s is evicted by %s and is not preemptible", e.Pod, e.Rule)
		}
		if e.Rule == cycle.RuleConsolidate && e.MoveTo == nil {
			t.Fatalf("%s is evicted by consolidation and has no place", e.Pod)
		}
		if e.Reason.Message == "" {
			t.Fatalf("%s is evicted without a reason", e.Pod)
		}
		for _, b := range budgets {
			if slices.Contains(b.Pods, e.Pod) {
				used[b.Key]++
			}
		}
	}
	for _, b := range budgets {
		if used[b.Key] > b.Allowed {
			t.Fatalf("budget %s allows %d evictions, the plan has %d", b.Key, b.Allowed, used[b.Key])
		}
	}
	for _, x := range plan.Waits {
		if x.Reason.Message == "" || x.Reason.Code == "" {
			t.Fatalf("%s waits without a reason: %+v", x.Workload, x)
		}
	}
	waits := map[string]bool{}
	for _, x := range plan.Waits {
		for _, uid := range x.Pods {
			waits[uid] = true
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[uid]
		placed := slices.ContainsFunc(plan.Placements, func(x cycle.Placement) bool { return x.Pod == uid })
		if p.State == model.Pending && !placed && !waits[uid] {
			t.Fatalf("pod %s has neither a place nor a reason", uid)
		}
	}
}
