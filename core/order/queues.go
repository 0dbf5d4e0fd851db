// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
)

// Turn is a queue that asks to be served: a leaf with its best job, or an inner
// queue with the best job below it.
type Turn struct {
	// Queue is an index into QueueTree.Queues.
	Queue int
	// Chunk is what the job asks for at a time; nil for nothing.
	Chunk amount.Vector
	// Released is what victims chosen so far would give back; nil for none.
	Released amount.Vector
}

// Queues returns −1 if a is served before b, 1 if after, and 0 only for the
// same queue. Siblings are compared; FairShare must be set. Rules O1 to O9, first
// that decides:
//
//	O1 a queue over its fair share in GPUs, CPU and memory at once goes last
//	O2 a queue whose chunk stays within quota goes first
//	O3 higher priority
//	O4 a queue that may hold nothing of what it would then hold goes last
//	O5 smaller dominant share with the chunk
//	O6 smaller dominant share without it
//	O7 smaller allocatable share: the weaker queue
//	O8 older
//	O9 lower name
func Queues(t *model.QueueTree, a, b Turn) int {
	x, y := side{t, &t.Queues[a.Queue], a}, side{t, &t.Queues[b.Queue], b}
	for _, rule := range queueRules {
		if c := rule(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// side is a turn with its queue.
type side struct {
	t *model.QueueTree
	q *model.QueueNode
	Turn
}

var queueRules = [...]func(x, y side) int{
	func(x, y side) int { return falseFirst(x.overShare(), y.overShare()) },
	func(x, y side) int { return falseFirst(!x.withinQuota(), !y.withinQuota()) },
	func(x, y side) int { return cmp.Compare(y.q.Priority, x.q.Priority) },
	func(x, y side) int { return falseFirst(x.holdsForbidden(), y.holdsForbidden()) },
	func(x, y side) int { return x.dominant(true).compare(y.dominant(true)) },
	func(x, y side) int { return x.dominant(false).compare(y.dominant(false)) },
	weaker,
	func(x, y side) int { return cmp.Compare(x.q.CreatedAt, y.q.CreatedAt) },
	func(x, y side) int { return cmp.Compare(x.q.Name, y.q.Name) },
}

// Counts says whether resource r matters for somebody who asks for need: GPUs,
// CPU and memory always, any other only if it is asked for, so that a GPU model
// or device nobody wants here decides nothing. (docs/fairness.md R9.)
func Counts(r int, need amount.Vector) bool {
	return r < model.FixedResources || amount.At(need, r) > 0
}

// overShare is O1. All three at once: a queue that is short of one is not put
// last for the others.
func (s side) overShare() bool {
	for r := range model.FixedResources {
		if s.q.FairShare[r] >= s.held(r, false) {
			return false
		}
	}
	return true
}

// withinQuota is O2. Resources that no queue has a quota for are left out.
func (s side) withinQuota() bool {
	for r := range s.t.Resources {
		if Counts(r, s.Chunk) && s.t.QuotaCounts(r) && s.held(r, true) > s.q.Quota[r] {
			return false
		}
	}
	return true
}

// holdsForbidden is O4.
func (s side) holdsForbidden() bool {
	for r := range s.t.Resources {
		if Counts(r, s.Chunk) && fairshare.Allocatable(s.q, r) == 0 && s.held(r, true) > 0 {
			return true
		}
	}
	return false
}

// weaker is O7. Where neither share is smaller throughout, the first resource
// that differs decides: any other answer would not be transitive.
func weaker(x, y side) int {
	for r := range x.t.Resources {
		if c := cmp.Compare(fairshare.Allocatable(x.q, r), fairshare.Allocatable(y.q, r)); c != 0 {
			return c
		}
	}
	return 0
}

// held is what the queue holds of r, less the victims, with the chunk or
// without.
func (s side) held(r int, chunk bool) amount.Amount {
	h := s.q.Allocated[r].Sub(amount.At(s.Released, r))
	if chunk {
		h = h.Add(amount.At(s.Chunk, r))
	}
	return max(0, h)
}

// ratio is num/den with den above 0.
type ratio struct{ num, den amount.Amount }

func (a ratio) compare(b ratio) int { return amount.CompareRatios(a.num, a.den, b.num, b.den) }

// dominant is the largest part of its allocatable share that a queue holds of
// any resource (O5, O6). An unlimited share is measured by the cluster's total;
// of a share of 0, whole pieces count a thousandfold.
func (s side) dominant(chunk bool) ratio {
	best := ratio{0, 1}
	for r, name := range s.t.Resources {
		if !Counts(r, s.Chunk) {
			continue
		}
		share := fairshare.Allocatable(s.q, r)
		if share == amount.Unlimited {
			share = s.t.Total[r]
		}
		part := ratio{s.held(r, chunk), share}
		if share <= 0 {
			part = ratio{amount.MulDiv(part.num, 1000, 1), model.Unit(name)}
		}
		if best.compare(part) < 0 {
			best = part
		}
	}
	return best
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
