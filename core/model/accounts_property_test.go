// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// call is one Set or Remove call.
type call func(c *model.Cluster) error

// contents is the last value that was set for each name.
type contents map[string]call

func drawNode(t *rapid.T) (string, model.Node) {
	name := fmt.Sprint("n", rapid.IntRange(0, 3).Draw(t, "node"))
	n := model.Node{
		Name: name, Ready: rapid.IntRange(0, 4).Draw(t, "ready") > 0, Labels: map[string]string{"zone": fmt.Sprint("z", rapid.IntRange(0, 1).Draw(t, "zone"))},
		Allocatable: model.Quantities{"cpu": 8000, "memory": 1 << 30, "pods": 10, "mig-1g.5gb": amount.Amount(rapid.IntRange(0, 2).Draw(t, "mig"))},
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "gpus") {
		n.GPUs = append(n.GPUs, model.GPU{
			ID: fmt.Sprint(i), Model: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "model"),
			MemoryMiB: rapid.SampledFrom([]int64{0, 40_000, 80_000}).Draw(t, "size"), Healthy: rapid.Bool().Draw(t, "healthy"), Shareable: true,
		})
	}
	return "node/" + name, n
}

func drawQueue(t *rapid.T) (string, model.Queue) {
	name := rapid.SampledFrom([]string{"root", "a", "b", "c"}).Draw(t, "queue")
	q := model.Queue{Name: name, PreemptMinRuntime: -1, ReclaimMinRuntime: -1, Quota: model.Quantities{"gpu": amount.Amount(rapid.IntRange(0, 4).Draw(t, "quota") * 1000)}}
	if name != "root" {
		q.Parent = rapid.SampledFrom([]string{"", "root", "a", "missing"}).Draw(t, "parent")
	}
	if q.Parent == name {
		q.Parent = ""
	}
	if rapid.Bool().Draw(t, "per model") {
		q.Limit = model.Quantities{"gpu.A": 2000}
	}
	return "queue/" + name, q
}

func drawWorkload(t *rapid.T) (string, model.Workload) {
	key := fmt.Sprint("ns/w", rapid.IntRange(0, 3).Draw(t, "workload"))
	w := model.Workload{
		Key: key, Queue: rapid.SampledFrom([]string{"a", "b", "c", "", "missing"}).Draw(t, "queue of"),
		Preemptible: rapid.Bool().Draw(t, "preemptible"), MinMember: rapid.IntRange(0, 2).Draw(t, "min"), StaleGrace: -1,
	}
	if rapid.IntRange(0, 3).Draw(t, "grouped") == 0 {
		w.SubGroups = []model.SubGroup{{Name: "x", MinMember: 1}, {Name: "y", MinMember: 1, Parent: "z"}, {Name: "z"}}
	}
	return "workload/" + key, w
}

func drawPod(t *rapid.T) (string, model.Pod) {
	uid := fmt.Sprint("p", rapid.IntRange(0, 7).Draw(t, "pod"))
	p := model.Pod{
		UID: uid, Name: uid, Workload: fmt.Sprint("ns/w", rapid.IntRange(0, 3).Draw(t, "member of")),
		State: model.PodState(rapid.IntRange(0, 7).Draw(t, "state")), Node: fmt.Sprint("n", rapid.IntRange(0, 3).Draw(t, "on")),
		SubGroup: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "group"), Request: model.Quantities{"cpu": 500},
		Labels: map[string]string{"app": rapid.SampledFrom([]string{"u", "v"}).Draw(t, "app")},
	}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		p.Claims = []model.GPUClaim{{Name: "c", Kind: model.WholeGPU, Count: 1}}
	case 1:
		p.Claims = []model.GPUClaim{{Name: "c", Kind: model.GPUSlice, Count: 1, Milli: 250}}
	case 2:
		p.Claims = []model.GPUClaim{{Name: "c", Kind: model.GPUMemory, Count: 1, MemoryMiB: 30_000}}
		p.Held = []model.HeldGPU{{Claim: "c", GPU: "0", Milli: 375, MemoryMiB: 30_000}}
	case 3:
		p.Request["mig-1g.5gb"] = 1
	}
	if rapid.IntRange(0, 3).Draw(t, "affine") == 0 {
		p.Affinities = []model.PodAffinity{{MatchLabels: map[string]string{"app": "u"}, TopologyKey: "zone", Anti: rapid.Bool().Draw(t, "anti")}}
	}
	return "pod/" + uid, p
}

// drawCall draws a Set or Remove call and notes what stays.
func drawCall(t *rapid.T, now contents) call {
	remove := rapid.IntRange(0, 4).Draw(t, "remove") == 0
	set, del, name := drawPair(t)
	if remove {
		delete(now, name)
		return del
	}
	now[name] = set
	return set
}

func drawPair(t *rapid.T) (set, del call, name string) {
	switch rapid.IntRange(0, 5).Draw(t, "call") {
	case 0:
		name, n := drawNode(t)
		return func(c *model.Cluster) error { return c.SetNode(n) }, func(c *model.Cluster) error { c.RemoveNode(n.Name); return nil }, name
	case 1:
		name, q := drawQueue(t)
		return func(c *model.Cluster) error { return c.SetQueue(q) }, func(c *model.Cluster) error { c.RemoveQueue(q.Name); return nil }, name
	case 2:
		name, w := drawWorkload(t)
		return func(c *model.Cluster) error { return c.SetWorkload(w) }, func(c *model.Cluster) error { c.RemoveWorkload(w.Key); return nil }, name
	}
	name, p := drawPod(t)
	return func(c *model.Cluster) error { return c.SetPod(p) }, func(c *model.Cluster) error { c.RemovePod(p.UID); return nil }, name
}

// However a cluster came to be, its accounts are those of a cluster built from
// what is there in the end, in any order.
func TestAccountsDependOnContentsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := contents{}
		grown := model.NewCluster(model.DefaultSettings())
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			if err := drawCall(t, now)(grown); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 3).Draw(t, "settle") == 0 {
				grown.Settle()
			}
		}
		grown.Settle()
		names := make([]string, 0, len(now))
		for name := range now {
			names = append(names, name)
		}
		slices.Sort(names)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		fresh := model.NewCluster(model.DefaultSettings())
		for _, name := range names {
			if err := now[name](fresh); err != nil {
				t.Fatal(err)
			}
		}
		fresh.Settle()
		if grown.Digest() != fresh.Digest() {
			t.Fatalf("accounts differ:\n%s\n%s", grown.Dump(), fresh.Dump())
		}
	})
}

// What-if work leaves no trace once it is undone, to any mark.
func TestUndoLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := model.NewCluster(model.DefaultSettings())
		for range rapid.IntRange(10, 60).Draw(t, "calls") {
			if err := drawCall(t, contents{})(c); err != nil {
				t.Fatal(err)
			}
		}
		c.Settle()
		type point struct {
			mark   model.Mark
			digest uint64
		}
		points := []point{{c.Mark(), c.Digest()}}
		for range rapid.IntRange(1, 20).Draw(t, "moves") {
			move(t, c)
			points = append(points, point{c.Mark(), c.Digest()})
		}
		for len(points) > 0 {
			back := rapid.IntRange(0, len(points)-1).Draw(t, "back to")
			c.Undo(points[back].mark)
			if got := c.Digest(); got != points[back].digest {
				t.Fatalf("undo to %d left a trace:\n%s", back, c.Dump())
			}
			points = points[:back]
		}
	})
}

// move gives a pod another place: a node's first GPUs, its home, or none.
func move(t *rapid.T, c *model.Cluster) {
	p := c.PodByUID(fmt.Sprint("p", rapid.IntRange(0, 7).Draw(t, "which")))
	nodes := c.NodeList()
	if p == nil || len(nodes) == 0 {
		return
	}
	n := nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "to")]
	var held []model.GPUHold
	if len(p.Spec.Claims) > 0 && len(n.GPUs) > 0 {
		milli, mib := model.ClaimOn(p.Spec.Claims[0], &n.GPUs[0])
		held = []model.GPUHold{{Milli: milli, MiB: mib}}
	}
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		c.Move(p, model.Place{})
	case 1:
		c.Move(p, model.Place{Phase: model.Started, Node: n, Held: held})
	case 2:
		if p.Phase.Active() {
			c.Evict(p)
		}
	default:
		if p.From == nil {
			c.Resettle(p, n, held)
		}
	}
}
