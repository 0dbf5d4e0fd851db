// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"

	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

// Query asks for the best node for a pod.
type Query struct {
	Pod *model.LivePod
	// Nodes are the candidates; nil stands for all.
	Nodes []*model.LiveNode
	// Rank, if not nil, ranks nodes by their topology domain, above all other
	// preferences but the nominated node.
	Rank func(n *model.LiveNode) int
	// Allow, if not nil, has the last word on a node.
	Allow func(n *model.LiveNode, holds []model.GPUHold) bool
}

// Choice is a node with the GPUs on it.
type Choice struct {
	Node  *model.LiveNode
	Holds []model.GPUHold
	// Now says that the room is free already.
	Now bool
}

// Best finds the best node, counting room that is being released.
func Best(c *model.Cluster, q Query) (Choice, bool) {
	policy := PolicyOf(c, q.Pod)
	if q.Pod.Spec.NominatedNode != "" {
		if n := c.NodeNamed(q.Pod.Spec.NominatedNode); n != nil && (q.Nodes == nil || slices.Contains(q.Nodes, n)) {
			if ch, ok := choose(c, q, n, policy); ok {
				return ch, true
			}
		}
	}
	if q.Nodes == nil && q.Rank == nil && !q.Pod.HasAffinity() {
		n, sure := quickest(c, q.Pod.Shape, policy)
		if n == nil && sure {
			return Choice{}, false
		}
		if n != nil {
			if ch, ok := choose(c, q, n, policy); ok {
				return ch, true
			}
		}
	}
	return scan(c, q, policy)
}

// Feasible says whether some node fits a shape, counting room that is being
// released. It costs next to nothing for a shape that is asked for often.
func Feasible(c *model.Cluster, p *model.LivePod) bool {
	n, _ := quickest(c, p.Shape, PolicyOf(c, p))
	return n != nil
}

// quickest finds the best node by key alone; sure is false if it did not look
// everywhere.
func quickest(c *model.Cluster, s *model.Shape, policy Policy) (n *model.LiveNode, sure bool) {
	nodes := c.NodeList()
	if len(nodes) > rankMask {
		return nil, false
	}
	x := indexFor(s, policy)
	var best uint64
	if x.uses++; x.uses > buildAfter {
		x.refresh(c, s, policy)
		best = x.best()
	} else {
		for _, n := range nodes {
			best = max(best, keyOf(c, s, n, policy))
		}
	}
	if best == 0 {
		return nil, true
	}
	return nodes[rankMask-best&rankMask], true
}

// scan looks at every candidate, best key first among those allowed.
func scan(c *model.Cluster, q Query, policy Policy) (Choice, bool) {
	nodes := q.Nodes
	if nodes == nil {
		nodes = c.NodeList()
	}
	var best Choice
	bestRank, bestKey := 0, uint64(0)
	for _, n := range nodes {
		key := keyOf(c, q.Pod.Shape, n, policy)
		if key == 0 {
			continue
		}
		rank := 0
		if q.Rank != nil {
			rank = q.Rank(n)
		}
		if q.Pod.HasAffinity() {
			if now, later := c.AffinityAllows(q.Pod, n); !later {
				continue
			} else if !now {
				key &^= keyNow
			}
		}
		if bestKey != 0 && (rank < bestRank || rank == bestRank && key <= bestKey) {
			continue
		}
		if ch, ok := choose(c, q, n, policy); ok {
			best, bestRank, bestKey = ch, rank, key
		}
	}
	return best, bestKey != 0
}

// choose picks the GPUs on a node and asks the last word.
func choose(c *model.Cluster, q Query, n *model.LiveNode, policy Policy) (Choice, bool) {
	s := q.Pod.Shape
	now, later, _ := fit.Room(s, n)
	if !later || fit.Static(c, s, n) != fit.Allowed {
		return Choice{}, false
	}
	if q.Pod.HasAffinity() {
		aNow, aLater := c.AffinityAllows(q.Pod, n)
		if !aLater {
			return Choice{}, false
		}
		now = now && aNow
	}
	holds, gpuNow, ok := chooseGPUs(c, q.Pod, n, policy)
	if !ok || q.Allow != nil && !q.Allow(n, holds) {
		return Choice{}, false
	}
	return Choice{Node: n, Holds: holds, Now: now && gpuNow}, true
}

// Put gives a pod its place; with later it only books the room.
func Put(c *model.Cluster, p *model.LivePod, ch Choice, later bool) {
	phase := model.Started
	if later || !ch.Now {
		phase = model.Awaiting
	}
	c.Move(p, model.Place{Phase: phase, Node: ch.Node, Held: ch.Holds})
}
