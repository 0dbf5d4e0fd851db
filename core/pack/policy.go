// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"fmt"
	"slices"
	"strings"
)

// Policy names a way to choose.
type Policy string

// Policies.
const (
	// ExpectedFill is ours: fill and remainders together, with prices.
	ExpectedFill Policy = "fill"
	// FGD is fragmentation gradient descent.
	FGD Policy = "fgd"
	// BestFit takes the place that leaves the least free.
	BestFit Policy = "bestfit"
)

// Policies lists all of them.
var Policies = []Policy{ExpectedFill, FGD, BestFit}

// ParsePolicy finds a policy by name.
func ParsePolicy(name string) (Policy, error) {
	if slices.Contains(Policies, Policy(name)) {
		return Policy(name), nil
	}
	words := make([]string, len(Policies))
	for i, p := range Policies {
		words[i] = string(p)
	}
	return "", fmt.Errorf("policy is %q; allowed: %s", name, strings.Join(words, ", "))
}

// fillPercent is how much fill counts beside remainders in ExpectedFill.
const fillPercent = 90

// priceLimit caps how far demand may exceed supply in the price of a model.
const priceLimit = 4

// Scorer scores places for tasks, given the mix of classes that is expected. It
// is not safe for concurrent use.
type Scorer struct {
	policy  Policy
	classes []Class
	// worth remembers values by state: nodes are often alike.
	worth  map[state]int64
	fill   value
	others value
}

// state identifies what a node has left, whatever the order of its GPUs.
type state struct {
	cpu, memory int64
	model       int32
	free        [maxStateGPUs]int16
}

const (
	maxStateGPUs = 16
	maxStates    = 1 << 18
)

// NewScorer returns a scorer for nodes like the given ones (they tell how
// scarce each GPU model is).
func NewScorer(policy Policy, classes []Class, nodes []Node) *Scorer {
	s := &Scorer{policy: policy, classes: classes, worth: map[state]int64{}}
	even := func(*Class) int64 { return scale }
	switch policy {
	case FGD:
		s.others = &fragments{kinds(classes, even)}
	case ExpectedFill:
		s.fill = newFill(classes)
		s.others = &remainders{kinds(classes, scarcity(nodes))}
	}
	return s
}

// scarcity weighs classes that only some models serve by how small a part of
// the capacity these are.
func scarcity(nodes []Node) func(*Class) int64 {
	total := int64(1)
	byModel := map[int]int64{}
	for i := range nodes {
		free := int64(len(nodes[i].Free)) * Whole
		total += free
		byModel[nodes[i].Model] += free
	}
	return func(c *Class) int64 {
		if c.Models == 0 {
			return scale
		}
		var supply int64
		for model, capacity := range byModel {
			if c.Models.Has(model) {
				supply += capacity
			}
		}
		if supply == 0 {
			return 0 // it fits nowhere, whatever is kept for it
		}
		return ratio(total, supply)
	}
}

// value of what a node has left, as a cost; lower is better.
func (s *Scorer) value(n *Node) int64 {
	free, whole := n.free()
	if free == 0 || s.others == nil {
		return 0
	}
	if s.fill == nil {
		return s.others.of(n, free, whole)
	}
	key, ok := stateOf(n)
	if ok {
		if v, known := s.worth[key]; known {
			return v
		}
	}
	v := (fillPercent*s.fill.of(n, free, whole) + (100-fillPercent)*s.others.of(n, free, whole)) / 100
	if ok {
		if len(s.worth) == maxStates {
			clear(s.worth)
		}
		s.worth[key] = v
	}
	return v
}

func stateOf(n *Node) (state, bool) {
	key := state{cpu: n.CPUMilli, memory: n.MemoryMiB, model: int32(n.Model)}
	if len(n.Free) > maxStateGPUs {
		return key, false
	}
	for i, f := range n.Free {
		key.free[i] = int16(f)
	}
	slices.Sort(key.free[:len(n.Free)])
	return key, true
}

// Cost is by how much the node is worth less after the task, for the best choice
// of its GPUs, which it appends to gpus. base is Value of the node. It reports
// false where the task does not fit. The node is as before afterwards.
func (s *Scorer) Cost(n *Node, base int64, t *Task, gpus []int) (int64, []int, bool) {
	var best int64
	found := false
	n.choices(t, func(choice []int) {
		tie := s.tie(n, choice)
		n.Take(t, choice)
		cost := s.value(n) - base + tie
		n.Give(t, choice)
		if !found || cost < best {
			best, found = cost, true
			gpus = append(gpus[:0], choice...)
		}
	})
	return best, gpus, found
}

// Value of what the node has left, for Cost.
func (s *Scorer) Value(n *Node) int64 { return s.value(n) }

// tie is best fit: prefer the node with less GPU and CPU left, and the fuller
// GPU. It is worth about one thousandth of a GPU, except in BestFit, where it
// is all there is.
func (s *Scorer) tie(n *Node, gpus []int) int64 {
	if s.policy == FGD {
		return 0
	}
	const perNodeGPU, perCPU = 8 * Whole, 100 * 1000
	free, _ := n.free()
	tie := free*scale/perNodeGPU + min(n.CPUMilli, 1<<30)*scale/perCPU
	if len(gpus) > 0 {
		tie += int64(n.Free[gpus[0]]) * scale / Whole
	}
	return tie
}
