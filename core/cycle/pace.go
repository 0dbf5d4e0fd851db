// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// tempo counts this cycle's evictions against the bounds of model.Pace and of the
// queues, by queue and, as model.NoQueue, in all.
type tempo struct {
	meter *model.PaceMeter
	// closed bounds were exceeded by a claim that waits now: nobody behind it
	// uses them, or small claims would overtake a large one for ever.
	closed map[int]bool
	// told is what jobs wait for that are like one that has to.
	told map[likeness]explain.Reason
}

func (d *decider) paced() bool { return d.meter().Paced() }

func (d *decider) meter() *model.PaceMeter {
	if d.tempo.meter == nil {
		d.tempo.meter = d.c.PaceMeter()
	}
	return d.tempo.meter
}

// evictions counts those of a search that are not decided already, by the queues
// that they count in.
func (s *search) evictions() map[int]int {
	need := map[int]int{}
	for _, u := range s.taken {
		for _, p := range u.pods {
			if s.d.disrupts(p) && s.d.evicted[p] == nil {
				s.d.meter().Need(need, u.w.Queue)
			}
		}
	}
	return need
}

// tooFast says whether the evictions of a search exceed a bound, and notes that
// its job waits for that.
func (s *search) tooFast() bool {
	d := s.d
	if !d.paced() {
		return false
	}
	need := s.evictions()
	late := false
	queues := make([]int, 0, len(need))
	for q := range need {
		queues = append(queues, q)
	}
	slices.Sort(queues)
	for _, q := range queues {
		most, done := d.meter().Bound(q)
		if most <= 0 || !d.tempo.closed[q] && (done == 0 || done+need[q] <= most) {
			continue
		}
		if late = true; d.tempo.closed == nil {
			d.tempo.closed = map[int]bool{}
		}
		d.tempo.closed[q] = true
		s.noteSlow(q, most)
	}
	return late
}

// stopped says whether no evictions at all are left for a claim.
func (s *search) stopped() bool {
	if !s.d.tempo.closed[model.NoQueue] {
		return false
	}
	most, _ := s.d.meter().Bound(model.NoQueue)
	s.noteSlow(model.NoQueue, most)
	return true
}

func (s *search) noteSlow(queue, most int) {
	name := ""
	if queue != model.NoQueue {
		name = s.d.t.Queues[queue].Name
	}
	r := explain.Paced(name, most, string(s.rule))
	if like, alike := s.d.likeness(s.j, s.rule); alike {
		if s.d.tempo.told == nil {
			s.d.tempo.told = map[likeness]explain.Reason{}
		}
		s.d.tempo.told[like] = r
	}
	s.d.slowed(s.j.w, r)
}

// slowed adds to a workload's reason that it waits for the pace.
func (d *decider) slowed(w *model.LiveWorkload, r explain.Reason) {
	old := d.reasons[w]
	if old != nil && old.Code == r.Code {
		return
	}
	if old != nil {
		r.Message = old.Message + "; " + r.Message
	}
	d.reasons[w] = &r
}

// noteAlike tells a job that was not tried, being like one that failed, if that
// one only has to wait for the pace.
func (d *decider) noteAlike(w *model.LiveWorkload, like likeness) {
	if r, ok := d.tempo.told[like]; ok {
		d.slowed(w, r)
	}
}

// keepTempo counts the evictions of a search that is decided.
func (s *search) keepTempo() {
	if s.d.paced() {
		s.d.meter().Count(s.evictions())
	}
}
