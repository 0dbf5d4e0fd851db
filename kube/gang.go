// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"time"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// GangReleased is why a pod waits whose gang gives up its other members first.
const GangReleased explain.Code = "GangReleased"

// life is what a gang's past adds to what its members show now. docs/gangs.md
// has its states and events as a table, and TestGangStates plays every line of
// it.
type life struct {
	// alive members at the last look, by sub-group; nil before the first look.
	alive roll
	// placed members at the last look, by UID; see heads.
	placed map[string]seat
	// ran is true from when the gang had its minimum until no member is placed.
	ran bool
	// short is true while the minimum is not met.
	short bool
	// staleSince is when a member was lost that left the gang, or a sub-group that
	// it can do without, below its minimum: nanoseconds, 0 if none was.
	staleSince int64
	// released is true from when a gang with OnMemberLostReleaseAll lost a member
	// until all others are on their way out.
	released bool
	// finished members whose pods are gone, by sub-group.
	finished roll
	// ended is true while no pod is left.
	ended bool
}

// watchGang looks at a gang after something changed and notes what follows from
// the difference to the last look. Before everything is listed it notes nothing.
func (l *Ledger) watchGang(w *workload) {
	defer l.watchGrace(w)
	if !w.isGroup || w.gangSpec() == nil {
		w.life = life{finished: w.finished, ended: w.ended}
		return
	}
	if len(l.unsynced) > 0 {
		return
	}
	l.beginRun(w)
	raised := w.alive == nil && l.remember(w)
	spec, before := l.build(w), w.life
	h := l.headsOf(w, &spec)
	w.step(&h, &spec, raised, l.now())
	if w.released != before.released {
		l.holdBack(w)
	}
	if w.staleSince == 0 || w.released {
		l.giveUpSeats(w)
	} else {
		l.keepSeats(w, before.placed, &h)
	}
}

// step is one transition of a gang. raised says of the first look that a
// minimum which is not met was raised above what ran.
func (w *workload) step(h *heads, spec *model.Workload, raised bool, now int64) {
	before := w.life
	root := !reached(*spec, h.alive)
	next := before
	next.alive, next.placed = h.alive, h.placed
	next.short = h.broken(spec, h.alive)
	fewer := !raised && h.fewerThan(before.alive)
	policy := w.gangSpec().OnMemberLost
	switch {
	case len(h.placed) == 0:
		next.ran, next.staleSince, next.released = false, 0, false
	case before.released:
	case !next.short:
		next.ran, next.staleSince = true, 0
	case root && policy == v1alpha1.OnMemberLostReleaseAll && before.ran && fewer && h.lacks(before.placed):
		next.released, next.staleSince = true, now
	case h.done.sum() > 0:
		next.staleSince = 0
	case fewer && before.staleSince == 0 && (h.bound.sum() > 0 || h.lostBound(before.placed)): // else nothing of it ran
		next.staleSince = now
	}
	w.life = next
}

// beginRun notes whether the pods that wait begin another run of a PodGroup
// whose members have all finished: those are no members of it.
func (l *Ledger) beginRun(w *workload) {
	if w.ended {
		w.ended, w.finished = false, nil
	}
	if w.group == nil {
		return // another run has another key
	}
	waits, finished := false, w.finished.sum() > 0
	for _, e := range w.pods {
		switch e.state {
		case stateReleased:
			finished = finished || e.succeeded() && !e.past
		case stateWaiting:
			waits = waits || !e.facts.deleting
		default:
			return
		}
	}
	if !waits || !finished {
		return
	}
	spec := l.build(w)
	h := l.headsOf(w, &spec)
	if !reached(spec, h.done) {
		return
	}
	w.finished = nil
	for _, e := range w.sorted() {
		if e.state == stateReleased {
			e.past = true
			l.refeed(e)
		}
	}
}

// finishedGone remembers a member that ended well and whose pod goes.
func (w *workload) finishedGone(e *entry) {
	if !w.isGroup || !e.succeeded() || e.past {
		return
	}
	if w.finished == nil {
		w.finished = roll{}
	}
	w.finished[leafOf(&w.spec, e.facts)]++
	delete(w.placed, e.facts.ref.UID)
}

// holdBack lets the members that wait stand back while the others are given up,
// and back in when those are on their way out.
func (l *Ledger) holdBack(w *workload) {
	l.note()
	for _, e := range w.sorted() {
		if w.released && e.state == statePromised {
			l.enter(e, stateWaiting, "", nil)
		}
		if e.state == stateWaiting {
			l.refeed(e)
			e.seq = l.seq
		}
	}
}

// never is a grace that does not end, and far from the end of time.
const never = int64(100 * 365 * 24 * time.Hour)

// applyLife tells the decision what the gang's past is. A minimum that is not
// met ends nobody unless a member was lost.
func (w *workload) applyLife(out *model.Workload) {
	out.StaleSince, out.Released = w.staleSince, w.released
	switch {
	case w.released:
		out.StaleGrace = 0
	case w.short && w.staleSince == 0:
		out.StaleGrace = never
	}
	if len(out.SubGroups) == 0 {
		out.Finished = w.finished.sum()
		return
	}
	for i := range out.SubGroups {
		out.SubGroups[i].Finished = w.finished[out.SubGroups[i].Name]
	}
}

// graceOf is how long the gang may be below its minimum.
func (l *Ledger) graceOf(w *workload) int64 {
	if grace := w.spec.StaleGrace; grace >= 0 {
		return grace
	}
	if grace := l.config.Settings.StaleGrace; grace >= 0 {
		return grace
	}
	return never
}

// watchGrace keeps the list of gangs whose grace runs.
func (l *Ledger) watchGrace(w *workload) {
	if w.staleSince == 0 {
		delete(l.degraded, w.key)
		return
	}
	l.degraded[w.key] = w
}

// wakeForGangs asks for a decision when the first grace is over.
func (l *Ledger) wakeForGangs(now int64) {
	for _, w := range l.degraded {
		if end := w.staleSince + l.graceOf(w); end > now {
			l.wake(end)
		}
	}
}
