// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package place

import "github.com/fairslice/fairslice/core/model"

// index is a tournament tree over the keys of all nodes for one shape and
// policy: keys[1] is the best of all.
type index struct {
	built  bool
	uses   int
	layout uint64
	mix    uint64
	pos    uint64
	size   int
	keys   []uint64
}

// buildAfter is how often a shape is placed by scanning before it gets a tree.
const buildAfter = 2

// indices are a shape's trees by policy.
type indices [9]index

func indexFor(s *model.Shape, policy Policy) *index {
	all, ok := s.Cache.(*indices)
	if !ok {
		all = &indices{}
		s.Cache = all
	}
	return &all[3*int(policy.Nodes)+int(policy.GPUs)]
}

// refresh brings the tree up to date with the nodes touched since.
func (x *index) refresh(c *model.Cluster, s *model.Shape, policy Policy) {
	touched, pos, ok := c.TouchedSince(x.pos, x.layout)
	nodes := c.NodeList()
	mix := uint64(0)
	if policy.Nodes == model.Fill {
		mix = packerOf(c).generation
	}
	if !x.built || !ok || mix != x.mix || len(touched) > 4*len(nodes) {
		x.build(c, s, policy, nodes)
	} else {
		for _, i := range touched {
			x.set(int(i), keyOf(c, s, nodes[i], policy))
		}
	}
	x.pos, x.layout, x.mix = pos, c.Layout(), mix
}

func (x *index) build(c *model.Cluster, s *model.Shape, policy Policy, nodes []*model.LiveNode) {
	x.built = true
	x.size = 1
	for x.size < len(nodes) {
		x.size *= 2
	}
	if len(x.keys) == 2*x.size {
		clear(x.keys)
	} else {
		x.keys = make([]uint64, 2*x.size)
	}
	for i, n := range nodes {
		x.keys[x.size+i] = keyOf(c, s, n, policy)
	}
	for i := x.size - 1; i >= 1; i-- {
		x.keys[i] = max(x.keys[2*i], x.keys[2*i+1])
	}
}

func (x *index) set(leaf int, key uint64) {
	i := x.size + leaf
	if x.keys[i] == key {
		return
	}
	x.keys[i] = key
	for i /= 2; i >= 1; i /= 2 {
		best := max(x.keys[2*i], x.keys[2*i+1])
		if x.keys[i] == best {
			return
		}
		x.keys[i] = best
	}
}

func (x *index) best() uint64 { return x.keys[1] }
