// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/fairslice/fairslice/core/amount"

// entry is one step of what-if work: the place that a pod had before.
type entry struct {
	pod    *LivePod
	before Place
	charge []amount.Amount
	// assumed is set where the step changed the pod's home.
	assumed *assumption
}

// assumption is what a pod's home was, and by how much the request of its queues
// grew.
type assumption struct {
	home    Place
	request amount.Vector
}

// Mark is a point in what-if work to which Undo goes back.
type Mark int

// Mark remembers the present state.
func (c *Cluster) Mark() Mark { return Mark(len(c.journal)) }

// Undo takes back every Move since the mark, the last one first.
func (c *Cluster) Undo(to Mark) {
	for len(c.journal) > int(to) {
		e := c.journal[len(c.journal)-1]
		c.journal = c.journal[:len(c.journal)-1]
		if a := e.assumed; a != nil {
			e.pod.Home = a.home
			c.requestMore(e.pod.Workload, a.request, -1)
			continue
		}
		c.leave(e.pod)
		e.pod.Charge = e.charge
		c.enter(e.pod, e.before)
	}
}

// Moved calls f once for each pod that a Move since the mark touched, in the
// order in which they were first touched.
func (c *Cluster) Moved(since Mark, f func(p *LivePod, before Place)) {
	seen := map[*LivePod]bool{}
	for _, e := range c.journal[since:] {
		if !seen[e.pod] {
			seen[e.pod] = true
			f(e.pod, e.before)
		}
	}
}

// Move gives a pod another place, as what-if work. The caller has seen that
// it fits.
func (c *Cluster) Move(p *LivePod, to Place) {
	c.journal = append(c.journal, entry{pod: p, before: p.Place, charge: p.Charge})
	c.leave(p)
	if to.Node != nil && to.Node != p.Node || to.Phase.Active() {
		p.Charge = c.ChargeAt(p.Shape, to.Node, to.Held)
	}
	c.enter(p, to)
}

// Evict turns a pod's place into one that is being released; a place that was
// only promised, or found in this what-if work, is simply gone. A pod on the move
// loses the place where it was to go.
func (c *Cluster) Evict(p *LivePod) {
	if p.From != nil {
		c.Move(p, Place{Phase: Leaving, Node: p.From.Node, Held: p.From.Held})
		return
	}
	if p.Home.Phase != Started {
		c.Move(p, Place{})
		return
	}
	c.Move(p, Place{Phase: Leaving, Node: p.Node, Held: p.Held})
}

// Resettle gives an evicted pod a new place that waits for room, while it
// still holds the old one.
func (c *Cluster) Resettle(p *LivePod, n *LiveNode, held []GPUHold) {
	to := Place{Phase: Awaiting, Node: n, Held: held}
	if p.Phase == Leaving {
		to.From = &Room{p.Node, p.Held}
	}
	c.Move(p, to)
}

func (c *Cluster) leave(p *LivePod) {
	if p.Node != nil {
		c.takeNode(p.Node, p, p.Place, -1)
		c.Touched(p.Node)
	}
	if p.From != nil {
		c.takeNode(p.From.Node, p, Place{Phase: Leaving, Held: p.From.Held}, -1)
		c.Touched(p.From.Node)
	}
	if p.Phase.Active() {
		c.chargeQueues(p, -1)
	}
	p.Workload.count(p, -1)
}

func (c *Cluster) enter(p *LivePod, at Place) {
	p.Place = at
	if at.Node != nil {
		c.takeNode(at.Node, p, at, 1)
		c.Touched(at.Node)
	}
	if at.From != nil {
		c.takeNode(at.From.Node, p, Place{Phase: Leaving, Held: at.From.Held}, 1)
		c.Touched(at.From.Node)
	}
	if at.Phase.Active() {
		c.chargeQueues(p, 1)
	}
	p.Workload.count(p, 1)
}

// Touched notes that a node's room changed, for whoever keeps an index.
func (c *Cluster) Touched(n *LiveNode) {
	if n.Index < 0 {
		return
	}
	const keep = 1 << 16
	if len(c.touchLog) >= keep {
		c.touchBase += uint64(len(c.touchLog))
		c.touchLog = c.touchLog[:0]
	}
	c.touchLog = append(c.touchLog, int32(n.Index))
}

// TouchedSince lists indices of nodes whose room changed since a position,
// with repetitions, and the position to ask from next time. It answers false
// if that is too long ago or the set of nodes changed: then all may have.
func (c *Cluster) TouchedSince(pos, layout uint64) ([]int32, uint64, bool) {
	end := c.touchBase + uint64(len(c.touchLog))
	if pos < c.touchBase || layout != c.layout {
		return nil, end, false
	}
	return c.touchLog[pos-c.touchBase:], end, true
}

// Layout changes whenever LiveNode.Index may mean other nodes.
func (c *Cluster) Layout() uint64 { return c.layout }
