// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/model"
)

// forbidden names a disruption budget that does not allow units to be evicted
// together, "" if all do.
func (d *decider) forbidden(units []*unit) string {
	if len(d.budgetUsed) == 0 {
		return ""
	}
	need := map[int]int{}
	for _, u := range units {
		for _, p := range u.pods {
			if d.disrupts(p) {
				for _, b := range d.c.BudgetsOf(p.Spec.UID) {
					need[b]++
				}
			}
		}
	}
	worst := -1
	for b, n := range need {
		if d.budgetUsed[b]+n > d.c.Budgets()[b].Allowed && (worst < 0 || b < worst) {
			worst = b
		}
	}
	if worst < 0 {
		return ""
	}
	return d.c.Budgets()[worst].Key
}

// disrupts says whether taking a pod's place is an eviction: it holds it, and
// not only by a promise or since this cycle.
func (d *decider) disrupts(p *model.LivePod) bool {
	return d.home(p).Phase == model.Started && p.Home.From == nil
}

// useBudgets counts an eviction.
func (d *decider) useBudgets(p *model.LivePod) {
	if len(d.budgetUsed) == 0 || !d.disrupts(p) {
		return
	}
	for _, b := range d.c.BudgetsOf(p.Spec.UID) {
		d.budgetUsed[b]++
	}
}

// chargeBudgets counts the pods of a unit that will really be evicted.
func (d *decider) chargeBudgets(u *unit) {
	for _, p := range u.pods {
		if p.Phase != model.Started || p.From != nil {
			d.useBudgets(p)
		}
	}
}

// evict evicts units, except those that a disruption budget protects.
func (s *search) evict(units []*unit) []*unit {
	if s.was == nil {
		s.was = map[*model.LivePod]model.Place{}
	}
	var out []*unit
	for _, u := range units {
		if slices.Contains(out, u) {
			continue
		}
		bundle := s.bundle(u)
		if budget := s.d.forbidden(bundle); budget != "" {
			s.blocked = budget
			continue
		}
		for _, b := range bundle {
			s.evictUnit(b)
		}
		out = append(out, bundle...)
	}
	return out
}

// bundle is a unit and, if it is a core, what else was collected of the same
// workload and is not taken: nothing of it stays without its core.
func (s *search) bundle(u *unit) []*unit {
	out := []*unit{u}
	if !u.core {
		return out
	}
	for _, more := range s.surplus[u.w] {
		if !more.taken && more != u && more.pods[0].Phase.Active() {
			out = append(out, more)
		}
	}
	return out
}

func (s *search) evictUnit(u *unit) {
	for _, p := range u.pods {
		if _, known := s.was[p]; !known {
			s.was[p] = p.Place
		}
		s.d.useBudgets(p)
		s.d.c.Evict(p)
	}
}
