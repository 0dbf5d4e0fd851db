// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

var zones = model.Topology{Name: "zones", Levels: []string{"zone"}}

// drawWorld draws a small, crowded cluster: a queue tree, nodes, and workloads
// that ask for more than there is, some of them running.
func drawWorld(t *rapid.T) *world {
	w := newWorld(t)
	number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
	s := model.DefaultSettings()
	s.ReclaimMultiplier = rapid.SampledFrom([]int64{1000, 1000, 1200, 3000}).Draw(t, "multiplier")
	s.MaxConsolidationVictims = rapid.SampledFrom([]int{0, 1, 16, -1}).Draw(t, "consolidation victims")
	s.ReclaimMoves = rapid.Bool().Draw(t, "reclaim moves")
	s.GPUSpreading = model.Spreading(number(0, 1, "spread GPUs"))
	s.NodeSpreadingGPU = model.Spreading(number(0, 1, "spread nodes"))
	w.c.SetSettings(s)
	nodes := number(1, 3, "nodes")
	for i := range nodes {
		w.node(fmt.Sprint("n", i), number(3, 6, "gpus"), cpu(amount.Amount(number(4, 12, "cores")*1000)), label("zone", fmt.Sprint(i%2)), gpuModel([]string{"A", "B"}[number(0, 1, "model")]))
	}
	if err := w.c.SetTopology(zones); err != nil {
		t.Fatal(err)
	}
	leaves := drawQueues(t, w)
	for i := range number(6, 16, "jobs") {
		w.submitDrawn(t, fmt.Sprint("j", i), rapid.SampledFrom(leaves).Draw(t, "queue"))
	}
	return w
}

// submitDrawn submits a drawn job, some with a topology, a delay before it may
// evict, or a disruption budget.
func (w *world) submitDrawn(t *rapid.T, name, queue string) {
	j := drawJob(t, name, queue)
	w.submit(j)
	spec, _ := w.c.Workload("ns/" + name)
	switch rapid.IntRange(0, 11).Draw(t, "extra") {
	case 11:
		spec.Topology = &model.TopologyConstraint{Topology: "zones", Required: "zone"}
	case 10:
		spec.PreemptionDelay = int64(rapid.IntRange(1, 20).Draw(t, "delay")) * second
	case 9:
		w.minAvailable[name] = rapid.IntRange(0, j.pods).Draw(t, "available")
	case 8:
		spec.SubGroups = []model.SubGroup{{Name: "a", MinMember: j.gang}, {Name: "b", MinMember: 0}}
		spec.MinMember, spec.MinSubGroup = 0, rapid.IntRange(0, 1).Draw(t, "sub-groups")
		for i := range j.pods {
			w.change(fmt.Sprintf("%s-%03d", name, i), func(p *model.Pod) { p.SubGroup = []string{"a", "b"}[i*2/(j.pods+1)] })
		}
	}
	w.must(w.c.SetWorkload(spec))
}

func gpuModel(name string) func(*model.Node) {
	return func(n *model.Node) {
		for i := range n.GPUs {
			n.GPUs[i].Model = name
		}
	}
}

// drawQueues makes a tree of one to three levels and returns its leaves.
func drawQueues(t *rapid.T, w *world) (leaves []string) {
	settings := func(q *model.Queue) {
		number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
		q.Priority = int32(number(0, 1, "queue priority"))
		q.CreatedAt = int64(number(0, 2, "queue age"))
		q.Quota["gpu"] = amount.Amount(number(0, 4, "quota") * 1000)
		q.OverQuotaWeight["gpu"] = amount.Amount(number(0, 3, "weight"))
		if number(0, 9, "has limit") == 9 {
			q.Limit["gpu"] = max(q.Quota["gpu"], amount.Amount(number(0, 9, "limit")*1000))
		}
		switch number(0, 9, "minimum runtime") {
		case 9:
			q.ReclaimMinRuntime = int64(number(0, 20, "reclaim minimum")) * second
		case 8:
			q.PreemptMinRuntime = int64(number(0, 20, "preempt minimum")) * second
		}
		if number(0, 9, "has model quota") == 9 {
			q.Quota["gpu.A"] = amount.Amount(number(0, 3, "model quota") * 1000)
		}
		if number(0, 9, "has CPU quota") == 9 {
			q.Quota["cpu"], q.OverQuotaWeight["cpu"] = amount.Amount(number(0, 6, "cpu quota")*1000), 1
		}
	}
	var grow func(name, above string, depth int)
	grow = func(name, above string, depth int) {
		w.queue(name, parent(above), settings)
		children := 0
		if depth < 2 {
			children = rapid.IntRange(0, 3).Draw(t, "children")
		}
		for i := range children {
			grow(fmt.Sprint(name, "-", i), name, depth+1)
		}
		if children == 0 {
			leaves = append(leaves, name)
		}
	}
	for i := range rapid.IntRange(2, 3).Draw(t, "roots") {
		grow(fmt.Sprint("q", i), "", 0)
	}
	return leaves
}

// drawJob draws a job; what is evicted of most jobs is recreated.
func drawJob(t *rapid.T, name, queue string) job {
	number := func(from, to int, what string) int { return rapid.IntRange(from, to).Draw(t, what) }
	j := job{
		name: name, queue: queue, pods: number(1, 4, "pods"), age: int64(number(0, 30, "age")),
		priority: int32(number(0, 2, "priority") * 50), firm: number(0, 9, "firm") == 9,
		recreated: number(0, 9, "bare") < 8, cpu: amount.Amount(number(0, 1, "cpu") * 500),
	}
	j.gang = number(1, j.pods, "gang")
	switch number(0, 3, "kind") {
	case 0:
		j.milli = rapid.SampledFrom([]int64{250, 500, 700}).Draw(t, "milli")
	case 1:
		j.memMiB = amount.Amount(number(1, 4, "memory") * 4096)
	default:
		j.gpus = number(1, 2, "whole")
	}
	if number(0, 9, "pinned") == 9 {
		j.nodeLabel = map[string]string{"zone": fmt.Sprint(number(0, 1, "zone"))}
	}
	return j
}
