// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
	"github.com/fairslice/fairslice/core/reclaim"
)

// reclaim takes room back for jobs of queues below their fair share from
// queues that hold more than theirs.
func (d *decider) reclaim() {
	d.victims = nil
	var accounts *books
	var permission *reclaim.Permission
	d.forEachClaimant(RuleReclaim, func(j *job) outcome {
		if accounts == nil {
			accounts = newBooks(d.t)
			permission = reclaim.NewPermission(accounts.tree, reclaim.Claim{}, d.settings.ReclaimMultiplier)
		}
		claim := reclaim.Claim{Queue: j.w.Queue, Need: j.need, Preemptible: j.w.Spec.Preemptible}
		if !reclaim.MayClaim(accounts.tree, claim) {
			d.noteShare(j)
			return forbidden
		}
		s := d.reclaimSearch(j, accounts.tree, permission, claim, true)
		found := s.run()
		if !found && s.lopsided {
			s = d.reclaimSearch(j, accounts.tree, permission, claim, false)
			found = s.run()
		}
		if !found {
			d.noteBlocked(s)
			return lost
		}
		s.commit(func(p *model.LivePod) explain.Reason { return d.reclaimed(accounts.tree, j, p) })
		accounts.update(d.t, s)
		return won
	})
}

// noteShare adds to a job's reason that its queue may not take room back.
func (d *decider) noteShare(j *job) {
	old := d.reasons[j.w]
	if old == nil || old.Code != explain.NoNodeFits && old.Code != explain.GangDoesNotFit {
		return
	}
	note := shareNote{old, j.w.Queue}
	if d.atShare[note] == nil {
		d.atShare[note] = d.shareReason(j, old)
	}
	d.reasons[j.w] = d.atShare[note]
}

// shareNote is a reason that a queue's share adds to.
type shareNote struct {
	reason *explain.Reason
	queue  int
}

func (d *decider) shareReason(j *job, old *explain.Reason) *explain.Reason {
	q := &d.t.Queues[j.w.Queue]
	for r, need := range j.need {
		if order.Counts(r, j.need) && q.Allocated[r].Add(need) > q.FairShare[r] {
			with := *old
			with.Message += "; " + explain.AtShare(q.Name, d.t.Resources[r], q.Allocated[r], q.FairShare[r])
			with.Queue = q.Name
			return &with
		}
	}
	return old
}

// reclaimSearch looks for victims in other queues; with spareModest, not in those
// that keep to their share while a sibling does not (R12).
func (d *decider) reclaimSearch(j *job, accounts *model.QueueTree, permission *reclaim.Permission, claim reclaim.Claim, spareModest bool) *search {
	permission.Restart(claim)
	s := &search{d: d, j: j, rule: RuleReclaim, moves: d.settings.ReclaimMoves}
	leaf := j.w.Queue
	judge := func(w *model.LiveWorkload) mercy {
		if slices.ContainsFunc(w.Pods, d.wonRoom) {
			return spare // others are being evicted for it, and were not weighed against the claimant
		}
		return d.reclaimMercy(leaf, w)
	}
	open := func(victim int) bool { return victim != leaf && permission.Could(victim) }
	s.restart = func() *stream { return newStream(d, accounts, j.w, d.victimLeaves(), judge, open) }
	s.approve = func(units []*unit) bool {
		if s.whole {
			permission.Reset()
		}
		for i, u := range units {
			cost := d.cost(u.pods)
			if spareModest && !permission.SparesModest(u.w.Queue, cost) {
				s.lopsided = true
				d.giveBack(permission, units[:i])
				return false
			}
			if _, ok := permission.Take(u.w.Queue, cost); !ok {
				d.giveBack(permission, units[:i])
				return false
			}
		}
		if !permission.Allowed() || !permission.SparesDrained() || !permission.SparesQuota() {
			d.giveBack(permission, units)
			return false
		}
		return true
	}
	return s
}

func (d *decider) giveBack(permission *reclaim.Permission, units []*unit) {
	for _, u := range units {
		permission.GiveBack(u.w.Queue, d.cost(u.pods))
	}
}

// reclaimMercy applies the minimum run time that protects a workload against
// claimants of another queue.
func (d *decider) reclaimMercy(claimant int, w *model.LiveWorkload) mercy {
	var minimum int64
	if d.settings.ReclaimRuntimeByQueue {
		minimum = reclaim.ReclaimMinRuntimeByQueue(d.t, w.Queue, d.settings.ReclaimMinRuntime)
	} else {
		minimum = reclaim.ReclaimMinRuntimeByAncestor(d.t, claimant, w.Queue, d.settings.ReclaimMinRuntime)
	}
	return d.mercyFor(w, minimum)
}

func (d *decider) mercyFor(w *model.LiveWorkload, minimum int64) mercy {
	if d.c.Now() < w.Spec.SparedUntil || minimum > 0 && reclaim.Protected(d.started(w), minimum, d.c.Now()) {
		return surplusOnly
	}
	return takeAll
}

func (d *decider) reclaimed(t *model.QueueTree, j *job, p *model.LivePod) explain.Reason {
	ours, theirs := reclaim.Levelled(t, j.w.Queue, p.Workload.Queue)
	return explain.Reclaimed(t, ours, theirs, overIn(t, theirs, j.need), j.w.Spec.Key)
}

// overIn is the resource in which a queue holds more than it may, or else than its
// quota: one that the claimant asks for, if there is one.
func overIn(t *model.QueueTree, victim int, need amount.Vector) int {
	q := &t.Queues[victim]
	overShare := func(r int) bool { return q.Allocated[r] > fairshare.Allocatable(q, r) }
	overQuota := func(r int) bool { return t.QuotaCounts(r) && q.Allocated[r] > q.Quota[r] }
	for _, over := range []func(int) bool{overShare, overQuota} {
		for _, asked := range []bool{true, false} {
			for r := range t.Resources {
				if (need[r] > 0) == asked && order.Counts(r, need) && over(r) {
					return r
				}
			}
		}
	}
	return dominantOf(need)
}

// dominantOf is the resource that a reason is told about: GPUs if any are
// asked for, else the first that is.
func dominantOf(need amount.Vector) int {
	for r, a := range need {
		if a > 0 {
			return r
		}
	}
	return model.AtGPU
}

// books are the queue accounts as they were before the present search, on
// which permissions are judged while the search changes the real ones.
type books struct{ tree *model.QueueTree }

func newBooks(t *model.QueueTree) *books {
	b := &books{tree: &model.QueueTree{}}
	*b.tree = *t
	b.tree.Queues = append([]model.QueueNode(nil), t.Queues...)
	for i := range b.tree.Queues {
		q := &b.tree.Queues[i]
		q.Allocated = append(amount.Vector(nil), q.Allocated...)
		q.AllocatedNonPreemptible = append(amount.Vector(nil), q.AllocatedNonPreemptible...)
	}
	return b
}

// update copies the accounts of the queues that a search changed.
func (b *books) update(t *model.QueueTree, s *search) {
	b.copy(t, s.j.w.Queue)
	for _, u := range s.taken {
		b.copy(t, u.w.Queue)
	}
}

func (b *books) copy(t *model.QueueTree, q int) {
	for ; q != model.NoQueue; q = t.Queues[q].Parent {
		copy(b.tree.Queues[q].Allocated, t.Queues[q].Allocated)
		copy(b.tree.Queues[q].AllocatedNonPreemptible, t.Queues[q].AllocatedNonPreemptible)
	}
}
