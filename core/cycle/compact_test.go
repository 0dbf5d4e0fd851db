// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

// compact plans moves and, with obey, makes them.
func (s *transcript) compact(obey bool) string {
	plan := cycle.Compact(s.c)
	var b strings.Builder
	for _, e := range plan.Moves {
		fmt.Fprintf(&b, "%s moves to %s\n  %s\n", e.Pod, placed(*e.MoveTo), e.Reason.Message)
	}
	for i, f := range plan.Before {
		fmt.Fprintf(&b, "%s: %s\n", f.Model, free(f))
		if len(plan.Moves) > 0 {
			fmt.Fprintf(&b, "  then %s\n", free(plan.After[i]))
		}
	}
	if obey {
		s.obey(plan.Moves)
	}
	return b.String()
}

func free(f cycle.FreeGPUs) string {
	return fmt.Sprintf("%d/1000 free, %d whole, %d on one node, %d nodes", f.Milli, f.Whole, f.Largest, f.Nodes)
}

// obey makes moves and lets the successors start in the places that are held for
// them.
func (w *world) obey(moves []cycle.Eviction) {
	w.t.Helper()
	for _, e := range moves {
		w.evict(e)
	}
	for range 2 {
		w.now += second
		w.c.SetNow(w.now)
		w.leave()
		for _, x := range cycle.Decide(w.c).Placements {
			w.place(x)
		}
	}
}

// freeNow is what cycle.FreeGPUs says, counted from the pods.
func (w *world) freeNow() []cycle.FreeGPUs { return cycle.Compact(w.c).Before }

// TestCompaction: moves are proven, gain something, lose nothing, obey what
// protects their pods, and come to an end when they are repeated.
func TestCompaction(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.settle()
		for range rapid.IntRange(0, 6).Draw(t, "ended") {
			if running := w.bound(); len(running) > 0 {
				w.remove(rapid.SampledFrom(running).Draw(t, "pod"))
			}
		}
		for round := 0; ; round++ {
			if round == 40 {
				t.Fatalf("after %d rounds it still moves pods", round)
			}
			w.c.SetBudgets(w.budgets())
			w.c.Settle()
			digest := w.c.Digest()
			plan := cycle.Compact(w.c)
			if w.c.Digest() != digest {
				t.Fatal("the cluster was changed")
			}
			if again := asJSON(t, cycle.Compact(rebuilt(t, w))); !bytes.Equal(again, asJSON(t, plan)) {
				t.Fatalf("another order, another plan:\n%s\n%s", asJSON(t, plan), again)
			}
			if len(plan.Moves) == 0 {
				return
			}
			moved++
			checkCompaction(t, w, plan)
			w.obeyAtOnce(plan.Moves)
			w.checkCluster()
			if got := w.freeNow(); !slices.Equal(got, plan.After) {
				t.Fatalf("promised %+v, got %+v", plan.After, got)
			}
		}
	})
	if moved == 0 {
		t.Error("no world had anything to move")
	}
}

func asJSON(t *rapid.T, v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bound lists the UIDs of pods that run.
func (w *world) bound() (uids []string) {
	for uid, p := range w.pods {
		if p.State == model.Bound {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// obeyAtOnce puts the pods into their new places without any time passing, for
// what only counts room.
func (w *world) obeyAtOnce(moves []cycle.Eviction) {
	for _, e := range moves {
		w.change(e.Pod, func(p *model.Pod) { p.Node, p.Held = e.MoveTo.Node, e.MoveTo.GPUs })
	}
}

func checkCompaction(t *rapid.T, w *world, plan cycle.Compaction) {
	gained := false
	for i, b := range plan.Before {
		a := plan.After[i]
		if a.Milli != b.Milli || a.Whole < b.Whole || a.Largest < b.Largest || a.Nodes < b.Nodes {
			t.Fatalf("before %+v, after %+v", b, a)
		}
		gained = gained || a.Whole > b.Whole || a.Largest > b.Largest || a.Nodes > b.Nodes
	}
	if !gained {
		t.Fatalf("%d moves gain nothing: %+v", len(plan.Moves), plan.Before)
	}
	workloads, lost, disrupted := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, e := range plan.Moves {
		spec, _ := w.c.Workload(e.Workload)
		p := w.pods[e.Pod]
		switch {
		case !spec.Recreated || !spec.Preemptible || spec.SparedUntil > w.now:
			t.Fatalf("%s may not be moved: %+v", e.Pod, spec)
		case p.State != model.Bound || e.MoveTo == nil || e.For != "" || e.Rule != cycle.RuleConsolidate || e.Reason.Message == "":
			t.Fatalf("move %+v of pod %+v", e, p)
		}
		workloads[e.Workload] = true
		lost[e.Workload]++
		disrupted[strings.TrimPrefix(e.Workload, "ns/")]++
	}
	if most := w.c.Settings().MaxConsolidationVictims; most >= 0 && len(workloads) > most {
		t.Fatalf("%d workloads are moved, at most %d may be", len(workloads), most)
	}
	for key, n := range lost {
		spec, _ := w.c.Workload(key)
		name := strings.TrimPrefix(key, "ns/")
		if left := w.running(name) - n; len(spec.SubGroups) == 0 && left < spec.MinMember && w.running(name) > 1 {
			t.Fatalf("%s keeps %d of the %d that it needs", key, left, spec.MinMember)
		}
	}
	for name, least := range w.minAvailable {
		if n := disrupted[name]; n > 0 && w.running(name)-n < least {
			t.Fatalf("budget of %s: %d of %d go, %d must stay", name, n, w.running(name), least)
		}
	}
}

// BenchmarkCompact plans on 1000 nodes of eight GPUs with jobs of one: between one
// and seven of them on each node, or seven everywhere, where the moves that are
// allowed are spent on two nodes and all others are tried in vain. The ledger is
// locked meanwhile.
func BenchmarkCompact(b *testing.B) {
	for _, c := range []struct {
		name  string
		jobs  func(node int) int
		moves int
	}{
		{"uneven", func(node int) int { return 1 + node%7 }, 16},
		{"nearly full", func(int) int { return 7 }, 14},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newWorld(b)
			w.queue("q", parent(""))
			for i := range 1000 {
				node := fmt.Sprintf("n%04d", i)
				w.node(node, 8, label("node", node))
				for k := range c.jobs(i) {
					w.submit(job{name: fmt.Sprintf("j%d-%d", i, k), queue: "q", gpus: 1, pods: 1, gang: 1, node: node, recreated: true})
				}
			}
			if n := len(cycle.Compact(w.c).Moves); n != c.moves {
				b.Fatalf("%d moves, want %d", n, c.moves)
			}
			for b.Loop() {
				cycle.Compact(w.c)
			}
		})
	}
}
