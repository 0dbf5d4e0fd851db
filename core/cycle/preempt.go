// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/capacity"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/reclaim"
)

// preempt takes room for jobs from jobs of lower priority in the same queue.
func (d *decider) preempt() {
	d.victims = nil
	d.forEachClaimant(RulePreempt, func(j *job) outcome {
		if !j.w.Spec.Preemptible && capacity.CheckQuota(d.t, j.w.Queue, j.need) != nil {
			return forbidden
		}
		mark, used := d.c.Mark(), slices.Clone(d.budgetUsed)
		s := d.preemptSearch(j, false)
		found := s.run()
		if found && s.outgrowsPromises() {
			d.c.Undo(mark)
			d.budgetUsed = used
			s = d.preemptSearch(j, true)
			found = s.run()
		}
		if found && s.outgrowsShare() {
			d.c.Undo(mark)
			d.budgetUsed = used
			return lost
		}
		if !found {
			d.noteBlocked(s)
			return lost
		}
		s.commit(func(p *model.LivePod) explain.Reason {
			return explain.Preempted(d.t.Queues[j.w.Queue].Name, j.w.Spec.Key, j.w.Spec.Priority, p.Workload.Spec.Priority)
		})
		return won
	})
}

// preemptSearch looks for victims of lower priority in the claimant's queue;
// with startedOnly, of workloads that hold all their room.
func (d *decider) preemptSearch(j *job, startedOnly bool) *search {
	s := &search{d: d, j: j, rule: RulePreempt, moves: d.settings.ReclaimMoves}
	minimum := reclaim.PreemptMinRuntime(d.t, j.w.Queue, d.settings.PreemptMinRuntime)
	judge := func(w *model.LiveWorkload) mercy {
		if w.Spec.Priority >= j.w.Spec.Priority || startedOnly && slices.ContainsFunc(w.Pods, promisedRoom) {
			return spare
		}
		return d.mercyFor(w, minimum)
	}
	s.restart = func() *stream { return newStream(d, d.t, j.w, []int{j.w.Queue}, judge, nil) }
	s.approve = func([]*unit) bool { return true }
	return s
}

// promisedRoom says whether a pod has its room by a promise, perhaps because others
// were evicted for it, even if it may start there now.
func promisedRoom(p *model.LivePod) bool {
	return p.Phase == model.Awaiting || p.Phase.Active() && p.Home.Phase == model.Awaiting
}

// outgrowsShare says whether the claimant, larger than its victims, makes a queue
// exceed its fair share of something while a sibling is still below its own of
// anything: the sibling could take the room back, as being over in one resource is
// enough for that, and the victims would return to be evicted again.
func (s *search) outgrowsShare() bool {
	t := s.d.t
	grown := slices.Clone(s.j.need)
	for _, u := range s.taken {
		amount.SubFrom(grown, s.d.cost(u.pods))
	}
	for a := s.j.w.Queue; a != model.NoQueue; a = t.Queues[a].Parent {
		q := &t.Queues[a]
		siblings := t.Roots
		if q.Parent != model.NoQueue {
			siblings = t.Queues[q.Parent].Children
		}
		for r := range grown {
			if grown[r] > 0 && q.Allocated[r] > q.FairShare[r] &&
				slices.ContainsFunc(siblings, func(x int) bool { return x != a && !amount.Fits(t.Queues[x].FairShare, t.Queues[x].Allocated) }) {
				return true
			}
		}
	}
	return false
}

// outgrowsPromises says whether the claimant takes room that was booked, not
// held, and more than the victims had. Room that other queues were made to give
// up may pass to a job of higher priority, but their loss was weighed against what
// the first claimant asked for: a larger one would go around the rules of
// reclaim, and the other queues would take it back, for ever.
func (s *search) outgrowsPromises() bool {
	had := make(amount.Vector, len(s.d.t.Resources))
	promised := false
	for _, u := range s.taken {
		amount.AddTo(had, s.d.cost(u.pods))
		for _, p := range u.pods {
			promised = promised || p.Home.Phase == model.Awaiting
		}
	}
	return promised && !amount.Fits(s.j.need, had)
}

// wonRoom says whether a pod has a promise for which others may have had to go: one
// that its workload won in this cycle, or one of an earlier plan or round.
func (d *decider) wonRoom(p *model.LivePod) bool {
	return promisedRoom(p) && p.From == nil && !p.Spec.StandIn && (d.winners[p.Workload] || p.Home.Phase == model.Awaiting)
}

// forEachClaimant walks over the jobs that still wait and may have others
// evicted, and calls try for each chunk. A job that is like one that failed
// before, and asks for no less, is not tried. An action run by itself serves each
// job once.
func (d *decider) forEachClaimant(rule Rule, try func(j *job) outcome) {
	var jobs []*job
	for _, j := range d.backlog() {
		s := j.w.Spec
		if !slices.ContainsFunc(j.w.Pods, waiting) || d.c.Now()-s.PendingSince < d.c.PreemptionDelay(s) {
			continue
		}
		if rule == RulePreempt && !d.outranks(j.w) {
			continue
		}
		jobs = append(jobs, j)
	}
	failed := map[likeness]int{}
	w := newWalk(d, jobs, waiting)
	for j := w.next(); j != nil; j = w.next() {
		like, alike := d.likeness(j, rule)
		if n, ok := failed[like]; alike && ok && len(j.tasks) >= n {
			d.noteAlike(j.w, like)
			w.done(false)
			continue
		}
		switch try(j) {
		case won:
			d.progress = true
			d.startPromised(j.w) // what needed no victims
			w.done(d.whole)
			continue
		case lost:
			if alike {
				failed[like] = len(j.tasks)
			}
		}
		w.done(false)
	}
}

// outranks says whether a workload of lower priority runs in the queue of w.
func (d *decider) outranks(w *model.LiveWorkload) bool {
	vs := d.victimsOf(w.Queue)
	return len(vs) > 0 && vs[0].key.Priority < w.Spec.Priority
}

// outcome is how a claimant fared.
type outcome int8

const (
	won       outcome = iota // it has its place
	lost                     // the search found nothing
	forbidden                // there was no search
)

// likeness is equal for jobs of which a search finds the same.
type likeness struct {
	queue       int
	shape       *model.Shape
	priority    int32
	preemptible bool
}

func (d *decider) likeness(j *job, rule Rule) (likeness, bool) {
	l := likeness{queue: j.w.Queue, shape: j.tasks[0].Shape, priority: j.w.Spec.Priority, preemptible: j.w.Spec.Preemptible}
	if rule == RuleConsolidate {
		l.queue = model.NoQueue
	}
	for _, p := range j.tasks {
		if p.Shape != l.shape || p.HasAffinity() {
			return l, false
		}
	}
	return l, !j.constrained()
}

// noteBlocked says of a job that a disruption budget, or a refusal, stood in its
// way, beside what is known already.
func (d *decider) noteBlocked(s *search) {
	if s.blocked == "" {
		return
	}
	r := explain.Blocked(s.blocked, string(s.rule))
	for _, b := range d.c.Budgets() {
		if b.Key == s.blocked && b.Refusal != "" {
			r = explain.Refused(b.Refusal, string(s.rule))
		}
	}
	if old := d.reasons[s.j.w]; old != nil {
		r.Message = old.Message + "; " + r.Message
	}
	d.reasons[s.j.w] = &r
}
