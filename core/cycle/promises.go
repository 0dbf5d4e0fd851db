// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// keepPromises looks at what earlier plans promised. A promise whose node,
// GPUs, queue or gang no longer allow it is withdrawn; of the others, those
// whose room is free by now may start.
func (d *decider) keepPromises() {
	promised := d.touched(model.SetPromised, func(w *model.LiveWorkload) bool { return slices.ContainsFunc(w.Pods, awaiting) })
	for _, w := range promised {
		d.withdrawBroken(w)
	}
	for _, w := range promised {
		d.startPromised(w)
	}
}

func awaiting(p *model.LivePod) bool { return p.Phase == model.Awaiting }

func keyOf(w *model.LiveWorkload) order.Job {
	return order.Job{Priority: w.Spec.Priority, Fill: fill(w), CreatedAt: w.Spec.CreatedAt, Key: w.Spec.Key}
}

// withdrawBroken takes back the promises of a workload that do not hold, and
// all of them if its gang is then short.
func (d *decider) withdrawBroken(w *model.LiveWorkload) {
	over := w.Queue == model.NoQueue || d.overCapacity(w)
	for _, p := range w.Pods {
		if p.Phase == model.Awaiting && (over || p.Group < 0 || !d.promiseHolds(p)) {
			d.c.Evict(p)
		}
	}
	if w.Satisfied(0, false) {
		return
	}
	for _, p := range w.Pods {
		if p.Phase == model.Awaiting {
			d.c.Evict(p)
		}
	}
}

// overCapacity says whether a queue of w holds more than it may, by a limit or
// a quota that was lowered since.
func (d *decider) overCapacity(w *model.LiveWorkload) bool {
	for q := w.Queue; q != model.NoQueue; q = d.t.Queues[q].Parent {
		n := &d.t.Queues[q]
		for r := range d.t.Resources {
			if n.Allocated[r] > n.Limit[r] && w.Charges(r) {
				return true
			}
			if !w.Spec.Preemptible && d.t.QuotaCounts(r) && n.AllocatedNonPreemptible[r] > n.Quota[r] && w.Charges(r) {
				return true
			}
		}
	}
	return false
}

// promiseHolds checks a promised place against its node as it is now.
func (d *decider) promiseHolds(p *model.LivePod) bool {
	n := p.Node
	if n.Spec == nil || fit.Static(d.c, p.Shape, n) != fit.Allowed || !holdsAll(p) || !fit.Serves(p.Shape, n, p.Held) {
		return false
	}
	mark := d.c.Mark()
	place := p.Place
	d.c.Move(p, model.Place{})
	_, later := fit.Again(d.c, p, n, place.Held)
	d.c.Undo(mark)
	return later
}

// holdsAll says whether a pod's GPUs all still exist.
func holdsAll(p *model.LivePod) bool {
	want := 0
	for _, cl := range p.Spec.Claims {
		want += cl.Count
	}
	return len(p.Held) == want
}

// awaitsRoom says whether a promised pod may start as soon as its room is free. A
// victim on the move is evicted first, and a stand-in never starts; they keep
// nobody else of their gang waiting.
func awaitsRoom(p *model.LivePod) bool {
	return p.Phase == model.Awaiting && p.From == nil && !p.Spec.StandIn
}

// startPromised lets promised pods hold their room where it is free: all of a
// gang, and of a sub-group that it can do without, or none.
func (d *decider) startPromised(w *model.LiveWorkload) {
	mark := d.c.Mark()
	waits := false
	for _, p := range w.Pods {
		if !awaitsRoom(p) {
			continue
		}
		at := p.Place
		d.c.Move(p, model.Place{})
		now, _ := fit.Again(d.c, p, at.Node, at.Held)
		if now {
			at.Phase = model.Started
		}
		d.c.Move(p, at)
		waits = waits || !now
	}
	switch {
	case waits && !w.Satisfied(0, true):
		d.c.Undo(mark)
	case waits:
		d.holdBackGang(w)
	}
}

// leastNeed is what a chunk costs at least, with memory claims judged by the
// largest GPU.
func (d *decider) leastNeed(j *job) []amount.Amount {
	need := make([]amount.Amount, len(d.t.Resources))
	for _, p := range j.tasks {
		for r, a := range d.c.LeastCharge(p.Shape) {
			need[r] = need[r].Add(a)
		}
	}
	return need
}
