// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package reclaim

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// Permission walks over victims and says of each unit whether the claimant may
// take it too, and of all of them together whether they keep the boundaries. It
// reads the accounts as they are and changes nothing in them.
type Permission struct {
	t          *model.QueueTree
	claim      Claim
	multiplier amount.Amount
	// lost is what each queue lost so far, queue by queue; touched are the
	// queues that lost something.
	lost    []amount.Amount
	touched []int
	// taken says which resources the victims use.
	taken     []bool
	remaining amount.Vector // scratch
}

// NewPermission starts a walk without victims. multiplier, in thousandths, damps
// reclaim above the claimant's own share (R7); less than 1000 counts as 1000.
func NewPermission(t *model.QueueTree, c Claim, multiplier int64) *Permission {
	n := len(t.Resources)
	return &Permission{
		t: t, claim: c, multiplier: max(1000, amount.Amount(multiplier)),
		lost:  make([]amount.Amount, n*len(t.Queues)),
		taken: make([]bool, n), remaining: make(amount.Vector, n),
	}
}

// Reset forgets all victims.
func (p *Permission) Reset() {
	for _, q := range p.touched {
		clear(p.lostBy(q))
	}
	p.touched = p.touched[:0]
	clear(p.taken)
}

// Restart forgets all victims and the claim, for another one on the same
// accounts.
func (p *Permission) Restart(c Claim) {
	p.Reset()
	p.claim = c
}

// GiveBack takes back a Take of the same unit.
func (p *Permission) GiveBack(victim int, unit amount.Vector) {
	for q := victim; q != model.NoQueue; q = p.t.Queues[q].Parent {
		amount.SubFrom(p.lostBy(q), unit)
	}
	clear(p.taken)
	for _, q := range p.touched {
		for r, x := range p.lostBy(q) {
			p.taken[r] = p.taken[r] || x > 0
		}
	}
}

// Could says whether any unit of leaf queue victim could be taken next. Once it
// is false it stays so: what a queue holds only shrinks.
func (p *Permission) Could(victim int) bool { return p.strategy(victim) != NoStrategy }

// Take is rule R6: the unit may be taken if one strategy holds before it is
// subtracted; how deep it then lets the queue fall does not matter. A unit that
// may not be taken changes nothing.
func (p *Permission) Take(victim int, unit amount.Vector) (Strategy, bool) {
	s := p.strategy(victim)
	if s == NoStrategy {
		return s, false
	}
	for q := victim; q != model.NoQueue; q = p.t.Queues[q].Parent {
		lost := p.lostBy(q)
		if amount.IsZero(lost) && !slices.Contains(p.touched, q) {
			p.touched = append(p.touched, q)
		}
		amount.AddTo(lost, unit)
	}
	for r, x := range unit {
		p.taken[r] = p.taken[r] || x > 0
	}
	return s, true
}

// strategy tries R4 and then R5 on the levelled pair.
func (p *Permission) strategy(victim int) Strategy {
	if victim == p.claim.Queue {
		return NoStrategy
	}
	ours, theirs := Levelled(p.t, p.claim.Queue, victim)
	p.left(theirs)
	switch {
	case OverFairShare(p.t, theirs, p.remaining, p.claim.Need):
		return FairShare
	case GuaranteesQuota(p.t, ours, theirs, p.remaining, p.claim.Need):
		return Quota
	}
	return NoStrategy
}

// Allowed says whether all units taken so far keep the boundaries (R7) and the
// claimant its quotas (R8).
func (p *Permission) Allowed() bool {
	for a := p.claim.Queue; a != model.NoQueue; a = p.t.Queues[a].Parent {
		if !p.claim.Preemptible && !firmWithinQuota(p.t, &p.t.Queues[a], p.claim.Need) {
			return false
		}
		for _, s := range p.touched {
			if s != a && p.t.Queues[s].Parent == p.t.Queues[a].Parent && !amount.IsZero(p.lostBy(s)) && !p.keepsBoundary(a, s) {
				return false
			}
		}
	}
	return true
}

// keepsBoundary is rule R7 for an ancestor a of the claimant and a sibling s that
// lost something: where a would exceed its fair share, it must still stand lower
// than s, by the multiplier, each measured by its own share.
func (p *Permission) keepsBoundary(a, s int) bool {
	ours, theirs := &p.t.Queues[a], &p.t.Queues[s]
	lost := p.lostBy(a)
	p.left(s)
	for r := range p.t.Resources {
		need := amount.At(p.claim.Need, r)
		if need <= 0 && !p.taken[r] || !order.Counts(r, p.claim.Need) {
			continue
		}
		hold := max(0, ours.Allocated[r].Add(need).Sub(lost[r]))
		if hold <= ours.FairShare[r] || theirs.FairShare[r] <= 0 || ours.FairShare[r] == amount.Unlimited {
			continue
		}
		if theirs.FairShare[r] == amount.Unlimited || ours.FairShare[r] <= 0 ||
			amount.CompareProducts(hold, p.multiplier, theirs.FairShare[r], p.remaining[r], 1000, ours.FairShare[r]) >= 0 {
			return false
		}
	}
	return true
}

// SparesDrained is rule R10: where the claimant's leaf or a queue above it would
// exceed its fair share of something, a sibling that lost some of it and has a
// share of nothing must keep some. R7 does not look at such siblings; but if
// neither is entitled to it, the one has no better claim than the other, and they
// would take it from each other for ever.
func (p *Permission) SparesDrained() bool {
	for a := p.claim.Queue; a != model.NoQueue; a = p.t.Queues[a].Parent {
		ours, lost := &p.t.Queues[a], p.lostBy(a)
		for _, s := range p.touched {
			theirs := &p.t.Queues[s]
			if s == a || theirs.Parent != ours.Parent {
				continue
			}
			gone := p.lostBy(s)
			for r := range p.t.Resources {
				hold := ours.Allocated[r].Add(amount.At(p.claim.Need, r)).Sub(lost[r])
				if order.Counts(r, p.claim.Need) && gone[r] > 0 && hold > ours.FairShare[r] &&
					theirs.FairShare[r] <= 0 && theirs.Allocated[r] <= gone[r] {
					return false
				}
			}
		}
	}
	return true
}

// SparesQuota is rule R11: a claimant's side that would hold more than its quota
// of something does not push a sibling in which other jobs wait below the
// sibling's quota of it. One large unit may do that (R6); the jobs that wait there
// would lawfully take the room back (R5), the unit return, and so on for ever.
func (p *Permission) SparesQuota() bool {
	for a := p.claim.Queue; a != model.NoQueue; a = p.t.Queues[a].Parent {
		ours, lost := &p.t.Queues[a], p.lostBy(a)
		for _, s := range p.touched {
			theirs := &p.t.Queues[s]
			if s == a || theirs.Parent != ours.Parent {
				continue
			}
			gone := p.lostBy(s)
			for r := range p.t.Resources {
				hold := ours.Allocated[r].Add(amount.At(p.claim.Need, r)).Sub(lost[r])
				if gone[r] > 0 && order.Counts(r, p.claim.Need) && p.t.QuotaCounts(r) && hold > ours.Quota[r] &&
					theirs.Allocated[r].Sub(gone[r]) < theirs.Quota[r] && theirs.Request[r] > theirs.Allocated[r] {
					return false
				}
			}
		}
	}
	return true
}

// SparesModest is rule R12, to be asked before a unit is taken: on the victim's
// side of the levelled pair, a queue that holds no more than its fair share loses
// nothing while a sibling still holds more than its own. The claimant is entitled
// to the room all the same (R4 to R6 look at the levelled pair only), but the modest
// queue would take its loss back from that sibling: one eviction more than needed.
func (p *Permission) SparesModest(victim int, unit amount.Vector) bool {
	_, levelled := Levelled(p.t, p.claim.Queue, victim)
	for q := victim; q != levelled; q = p.t.Queues[q].Parent {
		for r := range p.t.Resources {
			if amount.At(unit, r) > 0 && order.Counts(r, p.claim.Need) && p.holds(q, r) <= p.t.Queues[q].FairShare[r] && p.siblingOver(q, r) {
				return false
			}
		}
	}
	return true
}

// siblingOver says whether a sibling of queue q holds more of resource r than it may.
func (p *Permission) siblingOver(q, r int) bool {
	return slices.ContainsFunc(p.t.Queues[p.t.Queues[q].Parent].Children, func(s int) bool {
		return s != q && p.holds(s, r) > fairshare.Allocatable(&p.t.Queues[s], r)
	})
}

// holds is what queue q still holds of resource r.
func (p *Permission) holds(q, r int) amount.Amount {
	return p.t.Queues[q].Allocated[r].Sub(p.lostBy(q)[r])
}

// left sets p.remaining to what queue q still holds.
func (p *Permission) left(q int) {
	lost := p.lostBy(q)
	for r, x := range p.t.Queues[q].Allocated {
		p.remaining[r] = x.Sub(lost[r])
	}
}

func (p *Permission) lostBy(q int) amount.Vector {
	n := len(p.t.Resources)
	return p.lost[q*n : (q+1)*n]
}
