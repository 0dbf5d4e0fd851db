// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// consolidate makes room in one piece by moving running pods: every victim
// has its new place, proven and held, before it has to go.
func (d *decider) consolidate() {
	if d.settings.MaxConsolidationVictims == 0 {
		return
	}
	d.victims = nil
	d.forEachClaimant(RuleConsolidate, func(j *job) bool {
		if !j.w.Spec.Preemptible || !d.freeInPieces(j) {
			return false
		}
		s := &search{d: d, j: j, rule: RuleConsolidate, moves: true, ahead: true}
		judge := func(w *model.LiveWorkload) mercy {
			if !w.Spec.Recreated || slices.ContainsFunc(w.Pods, placedNow) {
				return spare
			}
			return takeAll
		}
		s.restart = func() *stream { return newStream(d, d.victimLeaves(), judge, nil) }
		moved := map[*model.LiveWorkload]bool{}
		s.approve = func(out []*unit) bool { return len(out) == 0 && d.withinMoves(s, moved) }
		if !s.run() {
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
		if slices.ContainsFunc(u.pods, unsettled) {
			moved[u.w] = true
		}
	}
	most := d.settings.MaxConsolidationVictims
	return most < 0 || len(moved) <= most
}

// placedNow pods found their place in this cycle.
func placedNow(p *model.LivePod) bool { return p.Phase.Active() && p.Home.Phase == model.Idle }
