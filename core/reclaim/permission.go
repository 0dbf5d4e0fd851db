// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package reclaim

import (
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// Claim is what a job of a queue wants to take from other queues.
type Claim struct {
	// Queue is the job's leaf, an index into QueueTree.Queues.
	Queue int
	// Need is the chunk that the job asks for.
	Need        amount.Vector
	Preemptible bool
}

// Strategy is why a unit of victims may be taken.
type Strategy int8

// Strategies.
const (
	// NoStrategy allows nothing.
	NoStrategy Strategy = iota
	// FairShare: the victim's queue holds more than its share (R4).
	FairShare
	// Quota: the claimant's queue stays within its quota, the victim's is over
	// its own (R5).
	Quota
)

// MayClaim is rule R1, the gate: with its need the claimant's leaf stays within
// its fair share, and, if the job is not preemptible, within its quota. Shares
// are those of the last division.
func MayClaim(t *model.QueueTree, c Claim) bool {
	q := &t.Queues[c.Queue]
	for r := range t.Resources {
		if order.Counts(r, c.Need) && q.Allocated[r].Add(amount.At(c.Need, r)) > q.FairShare[r] {
			return false
		}
	}
	return c.Preemptible || firmWithinQuota(t, q, c.Need)
}

// firmWithinQuota is what R1 and R8 ask of non-preemptible claimants.
func firmWithinQuota(t *model.QueueTree, q *model.QueueNode, need amount.Vector) bool {
	for r := range t.Resources {
		if order.Counts(r, need) && t.QuotaCounts(r) && q.AllocatedNonPreemptible[r].Add(amount.At(need, r)) > q.Quota[r] {
			return false
		}
	}
	return true
}

// Levelled is rule R3: the queues that are compared when claimant takes from
// victim are the ancestors of both just below the lowest one they share, or the
// roots. Both are leaves, and different ones.
func Levelled(t *model.QueueTree, claimant, victim int) (claimantSide, victimSide int) {
	a, b := claimant, victim
	da, db := depth(t, a), depth(t, b)
	for ; da > db; da-- {
		a = t.Queues[a].Parent
	}
	for ; db > da; db-- {
		b = t.Queues[b].Parent
	}
	for t.Queues[a].Parent != t.Queues[b].Parent {
		a, b = t.Queues[a].Parent, t.Queues[b].Parent
	}
	return a, b
}

func depth(t *model.QueueTree, q int) (d int) {
	for ; t.Queues[q].Parent != model.NoQueue; q = t.Queues[q].Parent {
		d++
	}
	return d
}

// OverFairShare is rule R4, the strategy "maintain fair share": the victim's
// queue still holds more than its allocatable share of some resource, also one
// that the claimant does not need.
func OverFairShare(t *model.QueueTree, victim int, remaining, need amount.Vector) bool {
	q := &t.Queues[victim]
	for r := range t.Resources {
		if order.Counts(r, need) && remaining[r] > fairshare.Allocatable(q, r) {
			return true
		}
	}
	return false
}

// GuaranteesQuota is rule R5, the strategy "guarantee quota": the claimant's
// queue stays within its quota everywhere, and the victim's still holds more than
// its quota somewhere.
func GuaranteesQuota(t *model.QueueTree, claimant, victim int, remaining, need amount.Vector) bool {
	c, v := &t.Queues[claimant], &t.Queues[victim]
	over := false
	for r := range t.Resources {
		if !order.Counts(r, need) || !t.QuotaCounts(r) {
			continue
		}
		if c.Allocated[r].Add(amount.At(need, r)) > c.Quota[r] {
			return false
		}
		over = over || remaining[r] > v.Quota[r]
	}
	return over
}
