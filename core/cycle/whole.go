// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/model"
)

// runWhole is the search for jobs whose pods depend on each other's places, by
// topology or affinity. It places the first pod of the chunk, then the first
// two, and so on, each time all of them anew with the victims found so far.
func (s *search) runWhole(start model.Mark) bool {
	s.stream = s.restart()
	if !s.stream.peek() || s.hopeless() {
		return false
	}
	used := slices.Clone(s.d.budgetUsed)
	for k := 1; k <= len(s.j.tasks); k++ {
		if !s.growTo(start, used, s.j.tasks[:k]) {
			return s.runTogether(start, used)
		}
	}
	return true
}

// runTogether attempts the whole chunk with the first victims of the stream, twice
// as many each time. The first pods may have found room where no more of it can be
// made, and what would help the chunk elsewhere helps none of its pods alone.
func (s *search) runTogether(start model.Mark, used []int) bool {
	s.d.c.Undo(start)
	s.d.budgetUsed = slices.Clone(used)
	s.whole, s.together = true, true
	s.units, s.surplus, s.taken, s.onNode = nil, nil, nil, map[*model.LiveNode][]*unit{}
	s.stream = s.restart()
	for n := 1; s.stream.peek() && s.steps < s.limit(); n *= 2 {
		for len(s.units) < n && s.stream.peek() {
			s.collect(s.stream.next())
		}
		if s.attempt(s.j.tasks, s.units) {
			return true
		}
		s.d.c.Undo(start)
	}
	return false
}

// growTo places tasks with the victims taken so far and, if need be, more. used is
// what budgets had been used before any of them.
func (s *search) growTo(start model.Mark, used []int, tasks []*model.LivePod) bool {
	known := s.taken
	again := func(more []*unit) bool {
		s.d.c.Undo(start)
		s.d.budgetUsed = slices.Clone(used)
		s.taken = nil
		var units []*unit
		for _, u := range slices.Concat(known, more) {
			units = append(units, &unit{w: u.w, core: u.core, pods: slices.Clone(u.pods)})
		}
		return s.attempt(tasks, units)
	}
	if len(known) == 0 && s.direct(tasks) || len(known) > 0 && again(nil) {
		return true
	}
	s.d.c.Undo(start)
	s.units, s.surplus, s.onNode = nil, nil, map[*model.LiveNode][]*unit{}
	s.stream = s.restart()
	for u := s.stream.next(); u != nil; u = s.stream.next() {
		if u = without(u, known); u == nil {
			continue
		}
		s.collect(u)
		for _, n := range unitNodes(u) {
			if s.steps < s.limit() && s.helpsOn(tasks, n) && again(s.onNode[n]) {
				return true
			}
			s.d.c.Undo(start)
		}
	}
	return false
}

// helpsOn says whether some task would fit a node without the units there.
func (s *search) helpsOn(tasks []*model.LivePod, n *model.LiveNode) bool {
	return slices.ContainsFunc(tasks, func(p *model.LivePod) bool { return s.wouldFit(p, n, s.onNode[n]) })
}

// without leaves out what known units have taken already.
func without(u *unit, known []*unit) *unit {
	left := unit{w: u.w, core: u.core}
	for _, p := range u.pods {
		if !slices.ContainsFunc(known, func(k *unit) bool { return slices.Contains(k.pods, p) }) {
			left.pods = append(left.pods, p)
		}
	}
	if len(left.pods) == 0 {
		return nil
	}
	return &left
}
