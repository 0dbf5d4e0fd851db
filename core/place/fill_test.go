// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package place_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/pack"
	"github.com/fairslice/fairslice/core/place"
)

// excerpt is the excerpt of a production trace that package pack has, or the
// trace in a folder.
func excerpt(t *testing.T) *pack.Trace {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.Open(filepath.Join("..", "pack", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	trace, err := pack.ReadTrace(open("nodes.csv"), open("tasks.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// built is the trace's cluster with all its tasks waiting.
func built(t *testing.T, trace *pack.Trace, tasks []pack.Task, order model.Spreading) cluster {
	t.Helper()
	c := newCluster(t, func(s *model.Settings) { s.NodeSpreadingGPU, s.NodeSpreadingCPU = order, order })
	for i, n := range trace.Nodes {
		node := model.Node{
			Name: fmt.Sprintf("n%05d", i), Ready: true, Labels: map[string]string{"model": fmt.Sprint(n.Model)},
			Allocatable: model.Quantities{"cpu": amount.Amount(n.CPUMilli), "memory": amount.Amount(n.MemoryMiB << 20), "pods": 1000},
		}
		for g := range n.Free {
			node.GPUs = append(node.GPUs, model.GPU{ID: fmt.Sprint(g), Model: fmt.Sprint(n.Model), MemoryMiB: 80_000, Healthy: true, Shareable: true})
		}
		if err := c.SetNode(node); err != nil {
			t.Fatal(err)
		}
	}
	for i := range tasks {
		if err := c.SetPod(podOf(i, &tasks[i])); err != nil {
			t.Fatal(err)
		}
	}
	c.Settle()
	return c
}

func podOf(i int, k *pack.Task) model.Pod {
	uid := fmt.Sprintf("p%05d", i)
	p := model.Pod{
		UID: uid, Name: uid, Workload: uid,
		Request: model.Quantities{"cpu": amount.Amount(k.CPUMilli), "memory": amount.Amount(k.MemoryMiB << 20)},
	}
	switch {
	case k.GPUs > 1 || k.GPUs == 1 && k.Milli == pack.Whole:
		p.Claims = []model.GPUClaim{whole(k.GPUs)}
	case k.GPUs == 1:
		p.Claims = []model.GPUClaim{slice(int64(k.Milli))}
	}
	var models []string
	for m := range 64 {
		if k.Models != 0 && k.GPUs > 0 && k.Models.Has(m) {
			models = append(models, fmt.Sprint(m))
		}
	}
	if models != nil {
		p.NodeTerms = [][]model.Requirement{{{Key: "model", Op: model.OpIn, Values: models}}}
	}
	return p
}

// arrivals places tasks as they come until as much was asked for as there is,
// and returns how much of it found a place, in thousandths of a GPU.
func arrivals(t *testing.T, trace *pack.Trace, order model.Spreading, seed uint64) (allocated int64) {
	tasks, err := trace.Arrivals(seed, 130)
	if err != nil {
		t.Fatal(err)
	}
	c := built(t, trace, tasks, order)
	var asked int64
	for i := 0; i < len(tasks) && asked < trace.Capacity(); i++ {
		asked += tasks[i].Demand()
		p := c.PodByUID(fmt.Sprintf("p%05d", i))
		if ch, ok := place.Best(c.Cluster, place.Query{Pod: p}); ok {
			place.Put(c.Cluster, p, ch, false)
			allocated += tasks[i].Demand()
		}
	}
	for _, n := range c.NodeList() {
		for i := range n.GPUs {
			if u := n.GPUs[i].Booked; u.Milli > 1000 || u.MiB > n.GPUs[i].MemoryMiB {
				t.Fatalf("GPU %d of %s is booked with %d thousandths and %d MiB", i, n.Spec.Name, u.Milli, u.MiB)
			}
		}
	}
	return allocated
}

// Fill leaves fewer GPUs useless than packing does, over several orders of
// arrival, and is repeatable.
func TestFillKeepsGPUsUsable(t *testing.T) {
	trace := excerpt(t)
	var filled, packed int64
	for seed := range uint64(4) {
		f := arrivals(t, trace, model.Fill, seed)
		if again := arrivals(t, trace, model.Fill, seed); again != f {
			t.Fatalf("seed %d: %d thousandths, then %d", seed, f, again)
		}
		filled += f
		packed += arrivals(t, trace, model.Pack, seed)
	}
	t.Logf("of %d thousandths: fill %d, pack %d", 4*trace.Capacity(), filled, packed)
	if filled <= packed {
		t.Errorf("fill placed %d thousandths, pack %d", filled, packed)
	}
}

// What Fill cannot value, pods with several claims, goes by the GPU policy.
func TestFillPlacesSeveralClaims(t *testing.T) {
	c := newCluster(t, func(s *model.Settings) { s.NodeSpreadingGPU = model.Fill })
	c.node("n1", 2, 8)
	other := slice(500)
	other.Name = "d"
	p := c.pod("p", "", 1, whole(1), other)
	for range 4 {
		if ch, ok := place.Best(c.Cluster, place.Query{Pod: p}); !ok || len(ch.Holds) != 2 || !ch.Now {
			t.Fatalf("got %+v, want both claims served", ch)
		}
	}
}
