// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"cmp"
	"slices"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

// consolidate makes room in one piece by moving running pods: every victim
// has its new place, proven and held, before it has to go.
func (d *decider) consolidate() {
	if d.settings.MaxConsolidationVictims == 0 {
		return
	}
	d.victims = d.indexVictims()
	d.forEachClaimant(RuleConsolidate, func(j *job) bool {
		if !j.w.Spec.Preemptible || !d.freeInPieces(j) {
			return false
		}
		s := &search{d: d, j: j, rule: RuleConsolidate, moves: true}
		judge := func(w *model.LiveWorkload) mercy {
			if w.Spec.Recreated {
				return takeAll
			}
			return spare
		}
		s.restart = func() *stream { return newStream(d, d.victims.leaves, judge, nil) }
		moved := map[*model.LiveWorkload]bool{}
		s.approve = func(out []*unit) bool { return len(out) == 0 && d.withinMoves(s, moved) }
		if !s.runMoves() {
			d.noteBlocked(s)
			return false
		}
		s.commit(func(p *model.LivePod) explain.Reason {
			return explain.Moved(j.w.Spec.Key, p.Node.Spec.Name)
		})
		return true
	})
}

// freeInPieces says whether what is free in the whole cluster would be enough
// for a chunk if it were in one piece.
func (d *decider) freeInPieces(j *job) bool {
	var need, free int64
	for _, p := range j.tasks {
		need += int64(d.c.LeastCharge(p.Shape)[model.AtGPU])
	}
	for _, n := range d.c.NodeList() {
		if !n.Usable {
			continue
		}
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Healthy {
				free += max(0, 1000-g.Booked.Milli)
			}
		}
		for r := range n.Cap {
			if name := d.c.NodeResourceName(r); name != "" {
				free += int64(model.MIGMilli(name)) * max(0, n.Cap[r]-n.Booked[r])
			}
		}
	}
	return need <= free
}

// withinMoves checks the cap on moved workloads, exactly.
func (d *decider) withinMoves(s *search, moved map[*model.LiveWorkload]bool) bool {
	clear(moved)
	for _, u := range slices.Concat(s.taken, s.trying) {
		if disturbed(u) {
			moved[u.w] = true
		}
	}
	most := d.settings.MaxConsolidationVictims
	return most < 0 || len(moved) <= most
}

// runMoves is run for consolidation: node by node, those first where the least
// has to be moved.
func (s *search) runMoves() bool {
	if s.j.constrained() || slices.ContainsFunc(s.j.tasks, (*model.LivePod).HasAffinity) {
		return s.run()
	}
	mark := s.d.c.Mark()
	used := slices.Clone(s.d.budgetUsed)
	s.collectAll()
	for i := range s.j.tasks {
		tasks := s.j.tasks[i : i+1]
		if len(s.units) == 0 || !s.direct(tasks) && !s.moveSome(tasks) {
			s.d.c.Undo(mark)
			s.d.budgetUsed = used
			return false
		}
	}
	return true
}

// collectAll collects every unit that may be moved.
func (s *search) collectAll() {
	s.onNode = map[*model.LiveNode][]*unit{}
	s.stream = s.restart()
	for u := s.stream.next(); u != nil; u = s.stream.next() {
		s.collect(u)
	}
}

// moveSome tries the nodes on which a pod would fit if others moved away.
func (s *search) moveSome(tasks []*model.LivePod) bool {
	type candidate struct {
		n     *model.LiveNode
		short int64
	}
	var candidates []candidate
	for n, units := range s.onNode {
		if s.wouldFit(tasks[0], n, s.untaken(units)) {
			candidates = append(candidates, candidate{n, fit.Shortfall(tasks[0].Shape, n)})
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.short, b.short), cmp.Compare(a.n.Index, b.n.Index))
	})
	for _, c := range candidates {
		if s.steps >= s.limit() {
			return false
		}
		if s.attempt(tasks, s.untaken(s.onNode[c.n])) {
			return true
		}
	}
	return false
}
