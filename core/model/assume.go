// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
)

// Assume makes a pod's place its home, as if that had been carried out: what-if
// work that follows sees the pod as the next decision would. It reports whether
// the queues of the pod request another amount then. Undo takes it back.
func (c *Cluster) Assume(p *LivePod) (request bool) {
	was, is := c.requested(p, p.Home), c.requested(p, p.Place)
	a := &assumption{home: p.Home}
	if !slices.Equal(was, is) {
		a.request = make(amount.Vector, len(c.tree.Resources))
		amount.AddTo(a.request, is)
		amount.SubFrom(a.request, was)
	}
	c.journal = append(c.journal, entry{pod: p, before: p.Place, charge: p.Charge, assumed: a})
	p.Home = p.Place
	c.requestMore(p.Workload, a.request, 1)
	return a.request != nil
}

// requested is what a pod at a place adds to the request of its queues: see
// contribute.
func (c *Cluster) requested(p *LivePod, at Place) amount.Vector {
	switch {
	case at.Phase.Active():
		return c.ChargeAt(p.Shape, at.Node, at.Held)
	case at.Phase == Idle && p.Spec.State != Gated && !p.Spec.StandIn:
		return c.Estimate(p.Shape)
	case at.Phase == Leaving && p.Workload.recreated():
		return c.Estimate(p.Shape) // evicted in this what-if work: see Pod.Returns
	}
	return nil
}

func (c *Cluster) requestMore(w *LiveWorkload, by amount.Vector, sign int) {
	if by == nil {
		return
	}
	for q := w.Queue; q != NoQueue; q = c.tree.Queues[q].Parent {
		if sign > 0 {
			amount.AddTo(c.tree.Queues[q].Request, by)
		} else {
			amount.SubFrom(c.tree.Queues[q].Request, by)
		}
	}
}

// Equal says whether two places are the same.
func (p Place) Equal(q Place) bool {
	return p.Phase == q.Phase && p.Node == q.Node && slices.Equal(p.Held, q.Held) && p.From.equal(q.From)
}

func (r *Room) equal(o *Room) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.Node == o.Node && slices.Equal(r.Held, o.Held)
}
