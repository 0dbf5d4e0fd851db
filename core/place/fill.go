// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"math/bits"
	"slices"

	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/pack"
)

// packer scores nodes for the Fill policy. It is made of what the cluster
// holds alone: the pods' shapes, roughly counted, and the nodes.
type packer struct {
	generation  uint64 // changes when scores may
	epoch       uint64
	labels      uint64
	layout      uint64
	classes     []pack.Class
	scorer      *pack.Scorer
	models      map[string]int
	tasks       map[*model.Shape]pack.Task
	node        pack.Node // scratch
	gpus        []int     // scratch
	unsupported map[*model.Shape]bool
}

// packerOf brings the cluster's packer up to date.
func packerOf(c *model.Cluster) *packer {
	p, _ := c.Packer.(*packer)
	if p != nil && p.epoch == c.MixEpoch() && p.labels == c.LabelEpoch() && p.layout == c.Layout() {
		return p
	}
	if p == nil || p.labels != c.LabelEpoch() || p.layout != c.Layout() {
		generation := uint64(1)
		if p != nil {
			generation = p.generation + 1
		}
		p = &packer{
			generation: generation, labels: c.LabelEpoch(), layout: c.Layout(), models: modelNumbers(c),
			tasks: map[*model.Shape]pack.Task{}, unsupported: map[*model.Shape]bool{},
		}
		c.Packer = p
	}
	p.epoch = c.MixEpoch()
	if classes := p.mix(c); p.scorer == nil || !slices.Equal(classes, p.classes) {
		p.classes = classes
		p.generation++
		nodes := make([]pack.Node, 0, len(c.NodeList()))
		for _, n := range c.NodeList() {
			if n.Usable {
				nodes = append(nodes, p.whole(n))
			}
		}
		p.scorer = pack.NewScorer(pack.ExpectedFill, classes, nodes)
	}
	return p
}

// modelNumbers numbers the GPU models by name.
func modelNumbers(c *model.Cluster) map[string]int {
	var names []string
	for _, n := range c.NodeList() {
		for i := range n.GPUs {
			if m := n.GPUs[i].Model; !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	slices.Sort(names)
	numbers := make(map[string]int, len(names))
	for i, m := range names {
		numbers[m] = i
	}
	return numbers
}

// mix counts the pods of each class, to three binary digits, so that one pod
// more or less seldom changes it.
func (p *packer) mix(c *model.Cluster) []pack.Class {
	counts := map[pack.Task]int64{}
	var order []pack.Task
	c.Mix(func(s *model.Shape, pods int) {
		t, ok := p.taskOf(c, s)
		if !ok || t.GPUs == 0 {
			return
		}
		if counts[t] == 0 {
			order = append(order, t)
		}
		counts[t] += int64(pods)
	})
	classes := make([]pack.Class, 0, len(order))
	for _, t := range order {
		shift := max(0, bits.Len64(uint64(counts[t]))-3)
		classes = append(classes, pack.Class{Task: t, Weight: counts[t] >> shift << shift})
	}
	return classes
}

// taskOf turns a shape into what package pack knows: one kind of claim, several
// GPUs only in whole.
func (p *packer) taskOf(c *model.Cluster, s *model.Shape) (pack.Task, bool) {
	if t, ok := p.tasks[s]; ok {
		return t, true
	}
	if p.unsupported[s] {
		return pack.Task{}, false
	}
	t := pack.Task{}
	for _, need := range s.Needs {
		switch need.Resource {
		case model.NodeCPU:
			t.CPUMilli = need.Amount
		case model.NodeMemory:
			t.MemoryMiB = need.Amount >> 20
		}
	}
	switch {
	case len(s.Claims) > 1, s.MIG, len(s.Claims) == 1 && s.Shared && s.Claims[0].Count > 1:
		p.unsupported[s] = true
		return pack.Task{}, false
	case len(s.Claims) == 1:
		t.GPUs = s.Claims[0].Count
		t.Milli = int32(int64(c.Estimate(s)[model.AtGPU]) / int64(t.GPUs))
		t.Models = p.modelsOf(c, s)
	}
	p.tasks[s] = t
	return t, true
}

// modelsOf is the set of GPU models on the nodes that a shape may use, 0 for
// all of them.
func (p *packer) modelsOf(c *model.Cluster, s *model.Shape) pack.Models {
	if len(s.NodeTerms) == 0 || len(p.models) > 64 {
		return 0
	}
	var set pack.Models
	for _, n := range c.NodeList() {
		if len(n.GPUs) > 0 && fit.Static(c, s, n) == fit.Allowed {
			set |= 1 << p.models[n.GPUs[0].Model]
		}
	}
	if bits.OnesCount64(uint64(set)) == len(p.models) {
		return 0
	}
	return set
}

// whole is a node without anything on it.
func (p *packer) whole(n *model.LiveNode) pack.Node {
	out := pack.Node{CPUMilli: n.Cap[model.NodeCPU], MemoryMiB: n.Cap[model.NodeMemory] >> 20}
	for i := range n.GPUs {
		out.Model = p.models[n.GPUs[0].Model]
		if n.GPUs[i].Healthy {
			out.Free = append(out.Free, pack.Whole)
		}
	}
	return out
}

// left fills the scratch node with what a node has left once all that is being
// released is gone. Of a GPU the scarcer of compute and memory counts.
func (p *packer) left(n *model.LiveNode) *pack.Node {
	p.node.CPUMilli = max(0, n.Cap[model.NodeCPU]-n.Booked[model.NodeCPU])
	p.node.MemoryMiB = max(0, n.Cap[model.NodeMemory]-n.Booked[model.NodeMemory]) >> 20
	p.node.Free = p.node.Free[:0]
	for i := range n.GPUs {
		g := &n.GPUs[i]
		p.node.Model = p.models[n.GPUs[0].Model]
		free := int64(0)
		if g.Healthy {
			free = max(0, pack.Whole-g.Booked.Milli)
			if g.MemoryMiB > 0 {
				free = min(free, max(0, g.MemoryMiB-g.Booked.MiB)*pack.Whole/g.MemoryMiB)
			}
		}
		p.node.Free = append(p.node.Free, int32(free))
	}
	return &p.node
}

// saved grows with what a node's GPUs are still worth after a pod of the shape.
func (p *packer) saved(c *model.Cluster, s *model.Shape, n *model.LiveNode) (uint64, bool) {
	cost, _, ok := p.cost(c, s, n)
	if !ok {
		return 0, false
	}
	const middle = 1 << (fullBits - 1)
	return uint64(min(max(middle-cost, 0), fullestMask)), true
}

func (p *packer) cost(c *model.Cluster, s *model.Shape, n *model.LiveNode) (int64, []int, bool) {
	t, ok := p.taskOf(c, s)
	if !ok {
		return 0, nil, false
	}
	if s.Memory {
		milli, _ := model.ClaimOn(s.Claims[0], &n.GPUs[0])
		t.Milli = int32(min(milli, pack.Whole))
	}
	t.Models = 0 // the node is allowed: its labels were looked at
	left := p.left(n)
	cost, gpus, ok := p.scorer.Cost(left, p.scorer.Value(left), &t, p.gpus[:0])
	p.gpus = gpus
	return cost, gpus, ok
}

// chooseGPUs picks GPUs on a node: those that the Fill policy prefers, if they
// are free by the exact account, or by the order of the GPU policy.
func chooseGPUs(c *model.Cluster, pod *model.LivePod, n *model.LiveNode, policy Policy) (holds []model.GPUHold, now, ok bool) {
	s := pod.Shape
	if policy.Nodes == model.Fill && len(s.Claims) == 1 {
		if _, gpus, ok := packerOf(c).cost(c, s, n); ok {
			for _, g := range gpus {
				milli, mib := model.ClaimOn(s.Claims[0], &n.GPUs[g])
				holds = append(holds, model.GPUHold{GPU: int32(g), Milli: milli, MiB: mib})
			}
			if now, _ := fit.Again(c, pod, n, holds); now && fit.Serves(s, n, holds) {
				return holds, true, true
			}
		}
	}
	return fit.GPUs(s, n, policy.GPUs)
}
