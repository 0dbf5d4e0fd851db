// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"cmp"
	"slices"

	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/topology"
)

// settleAll places claimant and victims in the order of queues and jobs.
func (s *search) settleAll(tasks []*model.LivePod, units []*unit) bool {
	claimant := s.part(tasks)
	jobs := []*job{claimant}
	seen := map[*model.LiveWorkload]bool{}
	out := map[*model.LivePod]bool{}
	for _, u := range units {
		if !seen[u.w] {
			seen[u.w] = true
			jobs = append(jobs, &job{w: u.w, lenient: true})
		}
		for _, p := range u.pods {
			out[p] = true
		}
	}
	free := func(p *model.LivePod) bool { return out[p] && !p.Phase.Active() }
	placed := false
	if s.ahead {
		if !s.claim(claimant) {
			return false
		}
		placed, jobs = true, jobs[1:]
		if s.restoreLargest(units) {
			return true
		}
	}
	w := newWalk(s.d, jobs, free)
	for j := w.next(); j != nil; j = w.next() {
		if j != claimant {
			w.done(s.restore(j))
			continue
		}
		if !s.claim(j) {
			return false
		}
		if placed = true; s.together {
			s.stay(units)
		}
		w.done(false)
	}
	return placed
}

// stay gives units that need not go their room back before others look for another:
// nobody is moved to the place of somebody who has to go for that.
func (s *search) stay(units []*unit) {
	for _, u := range slices.Backward(units) {
		if !u.core && !u.w.Satisfied(0, false) {
			continue // surplus is of no use without its core, which was collected later
		}
		mark := s.d.c.Mark()
		gone := func(p *model.LivePod) bool {
			return !p.Phase.Active() && (s.d.withinCapacity(&job{w: u.w, need: p.Charge}) != nil || !s.goBack(p))
		}
		if slices.ContainsFunc(u.pods, gone) {
			s.d.c.Undo(mark)
		}
	}
}

// largestFirst sorts pods by what they cost, so that of those that contend for
// a node the large ones stay and the small ones move.
func largestFirst(pods []*model.LivePod) []*model.LivePod {
	slices.SortStableFunc(pods, func(a, b *model.LivePod) int {
		return cmp.Or(cmp.Compare(b.Charge[model.AtGPU], a.Charge[model.AtGPU]), cmp.Compare(b.Charge[model.AtCPU], a.Charge[model.AtCPU]))
	})
	return pods
}

// restoreLargest finds room for all victims, the largest pods first.
func (s *search) restoreLargest(units []*unit) bool {
	mark := s.d.c.Mark()
	var pods []*model.LivePod
	for _, u := range units {
		pods = append(pods, u.pods...)
	}
	for _, p := range largestFirst(pods) {
		if !s.restoreOne(&job{w: p.Workload}, p) {
			s.d.c.Undo(mark)
			return false
		}
	}
	return true
}

// claim places the claimant.
func (s *search) claim(j *job) bool {
	if s.d.withinCapacity(j) != nil {
		return false
	}
	if s.target == nil {
		return s.d.placeTasks(j, true) == nil
	}
	p := placing{d: s.d, j: j, later: true}
	return p.leaf(j.tasks, topology.Set{Nodes: []*model.LiveNode{s.target}}) == nil
}

// restore gives victims their own room back, or, where moves are allowed,
// another: all of a chunk or none.
func (s *search) restore(j *job) bool {
	mark := s.d.c.Mark()
	for _, p := range j.tasks {
		if !s.restoreOne(j, p) {
			s.d.c.Undo(mark)
			return false
		}
	}
	return true
}

func (s *search) restoreOne(j *job, p *model.LivePod) bool {
	if s.d.withinCapacity(&job{w: j.w, need: p.Charge}) != nil {
		return false
	}
	if s.goBack(p) {
		return true
	}
	if p.Home.Node != nil && (!s.moves || !j.w.Spec.Recreated) || j.constrained() {
		return false
	}
	pl := placing{d: s.d, j: j, later: true}
	return pl.leaf([]*model.LivePod{p}, topology.Set{}) == nil
}

// goBack gives a pod the place back that it had before the search.
func (s *search) goBack(p *model.LivePod) bool {
	was := s.was[p]
	if was.Node == nil {
		return false
	}
	c := s.d.c
	mark := c.Mark()
	c.Move(p, model.Place{})
	s.swapGPUs(was)
	if _, later := fit.Again(c, p, was.Node, was.Held); later {
		c.Move(p, was)
		return true
	}
	c.Undo(mark)
	return false
}

// swapGPUs lets the claimant use other whole GPUs of a node where those that
// it took are a victim's own: they are all alike to it, and the victim need
// not move.
func (s *search) swapGPUs(victim model.Place) {
	n := victim.Node
	for _, q := range s.j.tasks {
		if q.Node != n || q.Phase != model.Awaiting || q.Shape.Shared {
			continue
		}
		held := slices.Clone(q.Held)
		changed := false
		for i, h := range held {
			if holdsGPU(victim.Held, h.GPU) {
				if spare := spareGPU(n, victim.Held, held); spare >= 0 {
					held[i].GPU, held[i].MiB, changed = spare, n.GPUs[spare].MemoryMiB, true
				}
			}
		}
		if changed {
			s.d.c.Move(q, model.Place{Phase: q.Phase, Node: n, Held: held})
		}
	}
}

func holdsGPU(holds []model.GPUHold, gpu int32) bool {
	return slices.ContainsFunc(holds, func(h model.GPUHold) bool { return h.GPU == gpu })
}

// spareGPU finds a GPU that nobody books and that is in neither list.
func spareGPU(n *model.LiveNode, a, b []model.GPUHold) int32 {
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Healthy && g.Booked.Pods == 0 && !holdsGPU(a, int32(i)) && !holdsGPU(b, int32(i)) {
			return int32(i)
		}
	}
	return -1
}
