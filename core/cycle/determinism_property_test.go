// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

// Equal clusters give byte-equal plans, in whatever order they were told what
// they hold. Both fresh clusters and those with promises and releasing pods.
func TestPlanIgnoresTheOrderOfTheInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(0, 4).Draw(t, "cycles before") {
			w.cycle()
		}
		w.now += second
		w.c.SetNow(w.now)
		w.c.SetBudgets(w.budgets())
		want := planBytes(t, w.c)
		for range 2 {
			if got := planBytes(t, rebuilt(t, w)); !bytes.Equal(got, want) {
				t.Fatalf("another order, another plan:\n%s\n%s", want, got)
			}
		}
	})
}

func planBytes(t *rapid.T, c *model.Cluster) []byte {
	out, err := json.Marshal(cycle.Decide(c))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rebuilt is a new cluster that is told the same in another order.
func rebuilt(t *rapid.T, w *world) *model.Cluster {
	c := model.NewCluster(w.c.Settings())
	c.SetNow(w.now)
	tell := []func() error{
		func() error { return c.SetTopology(zones) },
		func() error { c.SetBudgets(w.budgets()); return nil },
	}
	w.c.Nodes(func(n model.Node) bool { tell = append(tell, func() error { return c.SetNode(n) }); return true })
	w.c.Queues(func(q model.Queue) bool { tell = append(tell, func() error { return c.SetQueue(q) }); return true })
	w.c.Workloads(func(x model.Workload) bool {
		tell = append(tell, func() error { return c.SetWorkload(x) })
		return true
	})
	w.c.Pods(func(p model.Pod) bool { tell = append(tell, func() error { return c.SetPod(p) }); return true })
	for _, f := range rapid.Permutation(tell).Draw(t, "order") {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
