// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"cmp"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
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
	d.victims = nil
	d.forEachClaimant(RuleConsolidate, func(j *job) outcome {
		if !j.w.Spec.Preemptible || !d.freeInPieces(j) || d.withinCapacity(j) != nil {
			return forbidden
		}
		s := &search{d: d, j: j, rule: RuleConsolidate, moves: true, ahead: true}
		judge := func(w *model.LiveWorkload) mercy {
			if (!w.Spec.Recreated || d.c.Now() < w.Spec.SparedUntil) && !slices.ContainsFunc(w.Pods, placedNow) {
				return spare
			}
			return takeAll
		}
		s.restart = func() *stream { return newStream(d, d.t, j.w, d.victimLeaves(), judge, nil) }
		moved := map[*model.LiveWorkload]bool{}
		s.approve = func(out []*unit) bool { return len(out) == 0 && d.withinMoves(s, moved) }
		if !s.runMoves() {
			d.noteBlocked(s)
			return lost
		}
		s.commit(func(p *model.LivePod) explain.Reason {
			return explain.Moved(j.w.Spec.Key, p.Node.Spec.Name)
		})
		return won
	})
}

// freeInPieces says whether what is free in the whole cluster would be enough
// for a chunk if it were in one piece.
func (d *decider) freeInPieces(j *job) bool {
	var need int64
	for _, p := range j.tasks {
		need += int64(d.c.LeastCharge(p.Shape)[model.AtGPU])
	}
	if mark := d.c.Mark(); !d.pieces.known || d.pieces.at != mark {
		d.pieces.known, d.pieces.at, d.pieces.milli = true, mark, d.c.FreeMilli()
	}
	return need <= d.pieces.milli
}

// pieces is what is free in the whole cluster at a point of the what-if work.
type pieces struct {
	known bool
	at    model.Mark
	milli int64
}

// withinMoves checks the cap on moved workloads, exactly.
func (d *decider) withinMoves(s *search, moved map[*model.LiveWorkload]bool) bool {
	clear(moved)
	for _, u := range slices.Concat(s.taken, s.trying) {
		if slices.ContainsFunc(u.pods, unsettled) {
			moved[u.w] = true
		}
	}
	most := d.settings.MaxConsolidationVictims
	return most < 0 || len(moved) <= most
}

// placedNow pods found their place in this cycle.
func placedNow(p *model.LivePod) bool { return p.Phase.Active() && p.Home.Phase == model.Idle }

// runMoves is run for consolidation. Pods of the chunk find room one by one, on
// the node where the least has to be moved.
func (s *search) runMoves() bool {
	if s.dependent() {
		return s.run()
	}
	if s.stopped() {
		return false
	}
	mark, used := s.d.c.Mark(), slices.Clone(s.d.budgetUsed)
	if s.collectAll(); len(s.units) == 0 {
		return false
	}
	stuck := func(p *model.LivePod) bool {
		tasks := []*model.LivePod{p}
		return !s.direct(tasks) && !s.moveLeast(tasks)
	}
	if slices.ContainsFunc(s.j.tasks, stuck) || s.tooFast() {
		s.d.c.Undo(mark)
		s.d.budgetUsed = used
		return false
	}
	return true
}

// collectAll collects every unit that may be moved.
func (s *search) collectAll() {
	s.onNode = map[*model.LiveNode][]*unit{}
	s.stream = s.restart()
	for u := s.stream.next(); u != nil; u = s.stream.next() {
		u.turn = len(s.units)
		s.collect(u)
	}
}

// moveSet is pods of one node that would have to move for another to fit.
type moveSet struct {
	n    *model.LiveNode
	pods []*model.LivePod
	// moves counts those that run: what was placed in this cycle moves freely.
	moves int
	// size of the pods together, and how late in the stream the last one comes.
	gpu, cpu amount.Amount
	turn     int
}

func compareSets(a, b moveSet) int {
	return cmp.Or(cmp.Compare(a.moves, b.moves), cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(a.turn, b.turn),
		cmp.Compare(a.gpu, b.gpu), cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.n.Index, b.n.Index))
}

// moveLeast tries sets of pods whose move would let a pod in: fewer pods first,
// of as many those that are served last.
func (s *search) moveLeast(tasks []*model.LivePod) bool {
	nodes := make([]*model.LiveNode, 0, len(s.onNode))
	for n := range s.onNode {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *model.LiveNode) int { return cmp.Compare(a.Index, b.Index) })
	var sets []moveSet
	for _, n := range nodes {
		if units := s.untaken(s.onNode[n]); len(units) > 0 && s.wouldFit(tasks[0], n, units) {
			sets = append(sets, s.moveSets(tasks[0], n, units)...)
		}
	}
	slices.SortStableFunc(sets, compareSets)
	for _, set := range sets {
		if s.steps >= s.limit() {
			return false
		}
		s.target = set.n
		if s.attempt(tasks, s.unitsOf(set)) {
			return true
		}
	}
	return false
}

// unitsOf lists the units that a set's pods belong to.
func (s *search) unitsOf(set moveSet) []*unit {
	var out []*unit
	for _, u := range s.untaken(s.onNode[set.n]) {
		if slices.ContainsFunc(u.pods, func(p *model.LivePod) bool { return slices.Contains(set.pods, p) }) {
			out = append(out, u)
		}
	}
	return out
}

// moveSets lists sets of a node's pods that would let a pod in: single pods,
// what shares one GPU, and the smallest pods that are enough together.
func (s *search) moveSets(claimant *model.LivePod, n *model.LiveNode, units []*unit) []moveSet {
	turns := map[*model.LivePod]int{}
	var pods []*model.LivePod
	onGPU := make([][]*model.LivePod, len(n.GPUs))
	for _, u := range units {
		for _, p := range u.pods {
			if p.Node != n {
				continue
			}
			pods, turns[p] = append(pods, p), u.turn
			if len(p.Held) == 1 {
				onGPU[p.Held[0].GPU] = append(onGPU[p.Held[0].GPU], p)
			}
		}
	}
	var sets []moveSet
	add := func(pods []*model.LivePod) {
		if !s.fitsWithout(claimant, n, pods) {
			return
		}
		set := moveSet{n: n, pods: pods}
		for _, p := range pods {
			set.gpu, set.cpu = set.gpu.Add(p.Charge[model.AtGPU]), set.cpu.Add(p.Charge[model.AtCPU])
			set.turn = max(set.turn, turns[p])
			if !placedNow(p) {
				set.moves++
			}
		}
		sets = append(sets, set)
	}
	for i := range pods {
		add(pods[i : i+1 : i+1])
	}
	for _, together := range onGPU {
		if len(together) > 1 && claimant.Shape.GPUs == 1 {
			add(together)
		}
	}
	smallest := largestFirst(slices.Clone(pods))
	slices.Reverse(smallest)
	for k := 2; k <= len(smallest); k++ {
		if s.fitsWithout(claimant, n, smallest[:k]) {
			add(s.prune(claimant, n, smallest[:k]))
			break
		}
	}
	return sets
}

// prune leaves out what need not move, the largest pods first.
func (s *search) prune(claimant *model.LivePod, n *model.LiveNode, pods []*model.LivePod) []*model.LivePod {
	kept := slices.Clone(pods)
	for i := len(kept) - 1; i >= 0 && len(kept) > 1; i-- {
		if without := slices.Delete(slices.Clone(kept), i, i+1); s.fitsWithout(claimant, n, without) {
			kept = without
		}
	}
	return kept
}

// fitsWithout says whether a pod would fit a node without some of its pods.
func (s *search) fitsWithout(claimant *model.LivePod, n *model.LiveNode, pods []*model.LivePod) bool {
	mark := s.d.c.Mark()
	for _, p := range pods {
		s.d.c.Evict(p)
	}
	_, later, _ := fit.Room(claimant.Shape, n)
	s.d.c.Undo(mark)
	return later
}
