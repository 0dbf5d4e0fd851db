// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"github.com/fairslice/fairslice/core/capacity"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/reclaim"
)

// preempt takes room for jobs from jobs of lower priority in the same queue.
func (d *decider) preempt() {
	d.victims = nil
	d.forEachClaimant(RulePreempt, func(j *job) bool {
		if !j.w.Spec.Preemptible && capacity.CheckQuota(d.t, j.w.Queue, j.need) != nil {
			return false
		}
		s := &search{d: d, j: j, rule: RulePreempt, moves: d.settings.ReclaimMoves}
		minimum := reclaim.PreemptMinRuntime(d.t, j.w.Queue, d.settings.PreemptMinRuntime)
		judge := func(w *model.LiveWorkload) mercy {
			if w.Spec.Priority >= j.w.Spec.Priority {
				return spare
			}
			return d.mercyFor(w, minimum)
		}
		s.restart = func() *stream { return newStream(d, []int{j.w.Queue}, judge, nil) }
		s.approve = func([]*unit) bool { return true }
		if !s.run() {
			d.noteBlocked(s)
			return false
		}
		s.commit(func(p *model.LivePod) explain.Reason {
			return explain.Preempted(d.t.Queues[j.w.Queue].Name, j.w.Spec.Key, j.w.Spec.Priority, p.Workload.Spec.Priority)
		})
		return true
	})
}

// forEachClaimant walks over the jobs that still wait and may have others
// evicted, and calls try for each chunk. A job that is like one that failed
// before, and asks for no less, is not tried.
func (d *decider) forEachClaimant(rule Rule, try func(j *job) bool) {
	var jobs []*job
	for _, j := range d.backlog() {
		if s := j.w.Spec; d.c.Now()-s.PendingSince < s.PreemptionDelay {
			continue
		}
		jobs = append(jobs, j)
	}
	failed := map[likeness]int{}
	w := newWalk(d, jobs, waiting)
	for j := w.next(); j != nil; j = w.next() {
		like, alike := d.likeness(j, rule)
		if n, ok := failed[like]; alike && ok && len(j.tasks) >= n {
			w.done(false)
			continue
		}
		if try(j) {
			w.done(true)
			continue
		}
		if alike {
			failed[like] = len(j.tasks)
		}
		w.done(false)
	}
}

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

// noteBlocked says of a job that a disruption budget stood in its way, unless
// something nearer the point is known.
func (d *decider) noteBlocked(s *search) {
	if s.blocked == "" {
		return
	}
	r := explain.Blocked(s.blocked, string(s.rule))
	if old := d.reasons[s.j.w]; old != nil {
		r.Message = old.Message + "; " + r.Message
	}
	d.reasons[s.j.w] = &r
}
