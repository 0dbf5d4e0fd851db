// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// maxRounds bounds how often the actions are repeated.
const maxRounds = 16

// repeat runs the actions round by round. Each round sees what the rounds before
// it decided as if that had been carried out, which is what the next cycle would
// see; when a round decides nothing, the next cycle has nothing to decide either.
// Gangs end as stale only when nothing else is left to do: they might be whole
// again by then. It reports whether the last of so many rounds decided nothing, or
// was not asked to place anybody.
//
// Where jobs displace each other in a ring no round is the last. Then the plan
// is that of a single round, as the ring would else go on inside the plan.
func (d *decider) repeat(actions []Action, rounds int) bool {
	d.whole = slices.Contains(actions, Allocate)
	for range rounds {
		mark := d.c.Mark()
		reasons, searched := d.reasons, d.progress
		d.reasons, d.progress = map[*model.LiveWorkload]*explain.Reason{}, false
		d.keepPromises()
		for _, a := range actions {
			d.run(a)
		}
		last := !d.whole || !d.movedSince(mark)
		d.keepReasons(reasons, last && !searched)
		if last && slices.Contains(actions, EvictStaleGangs) {
			d.evictStaleGangs()
		}
		switch {
		case !d.whole || last && !d.movedSince(mark):
			return true
		case rounds > 1:
			d.assume()
		}
	}
	return false
}

// keepReasons takes over the reasons that earlier rounds found. Those of a round
// in which a job had its turn, and nobody was evicted, stand before those of a
// round that decided nothing: they name the room that there was at its turn.
func (d *decider) keepReasons(earlier map[*model.LiveWorkload]*explain.Reason, before bool) {
	for w, r := range earlier {
		if d.reasons[w] == nil || before {
			d.reasons[w] = r
		}
	}
}

// movedSince says whether some pod is not where it was at a mark.
func (d *decider) movedSince(mark model.Mark) bool {
	moved := false
	d.c.Moved(mark, func(p *model.LivePod, before model.Place) { moved = moved || !p.Equal(before) })
	return moved
}

// assume ends a round: what it decided counts as carried out from now on.
func (d *decider) assume() {
	var moved []*model.LivePod
	d.c.Moved(d.start, func(p *model.LivePod, _ model.Place) { moved = append(moved, p) })
	if d.homes == nil {
		d.homes = make(map[*model.LivePod]model.Place, len(moved))
	}
	request := false
	for _, p := range moved {
		if _, known := d.homes[p]; !known {
			d.homes[p] = p.Home
		}
		d.forgetRoom(p)
	}
	for _, p := range moved {
		d.holdBackGang(p.Workload)
	}
	for _, p := range moved {
		if !p.Equal(p.Home) {
			request = d.c.Assume(p) || request
		}
	}
	if request {
		fairshare.Divide(d.t, d.settings.UsageFactor)
	}
	clear(d.won)
}

// forgetRoom lets go of room that a pod found in this cycle and lost again: it
// never held that.
func (d *decider) forgetRoom(p *model.LivePod) {
	if d.home(p).Phase == model.Started {
		return
	}
	switch {
	case p.Phase == model.Leaving:
		d.c.Move(p, model.Place{})
	case p.From != nil:
		d.c.Move(p, model.Place{Phase: model.Awaiting, Node: p.Node, Held: p.Held})
	}
}

// home is the place that a pod has in the cluster. Pod.Home is where it would be
// had the earlier rounds been carried out.
func (d *decider) home(p *model.LivePod) model.Place {
	if h, ok := d.homes[p]; ok {
		return h
	}
	return p.Home
}

// started is when a workload began to run. One of which the first pod starts in
// this cycle does so now.
func (d *decider) started(w *model.LiveWorkload) int64 {
	begins := false
	for _, p := range w.Pods {
		if p.Home.Phase != model.Started {
			continue
		}
		if d.home(p).Phase == model.Started {
			return w.Spec.StartedAt
		}
		begins = true
	}
	if begins {
		return d.c.Now()
	}
	return w.Spec.StartedAt
}

// touched lists the workloads of a set and those that this cycle gave or took
// places, if they satisfy a condition, in the order of jobs.
func (d *decider) touched(set int, condition func(w *model.LiveWorkload) bool) []*model.LiveWorkload {
	var out []*model.LiveWorkload
	seen := map[*model.LiveWorkload]bool{}
	add := func(w *model.LiveWorkload) {
		if !seen[w] && condition(w) {
			out = append(out, w)
		}
		seen[w] = true
	}
	for _, w := range d.c.Members(set) {
		add(w)
	}
	for p := range d.homes {
		add(p.Workload)
	}
	slices.SortFunc(out, func(a, b *model.LiveWorkload) int { return order.Jobs(keyOf(a), keyOf(b)) })
	return out
}
