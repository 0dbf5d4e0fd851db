// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"math/big"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// reference divides one level of one resource as docs/fairness.md says it, with
// rational numbers and no thought for speed. Quotas, then bands, each with its
// remainders; a remainder gives at most what is missing.
func reference(queues []model.QueueNode, r int, total, unit amount.Amount, factor int64) ([]amount.Amount, *big.Rat) {
	got := make([]*big.Rat, len(queues))
	want := make([]*big.Rat, len(queues))
	left := rat(total)
	var priorities []int32
	for i := range queues {
		q := &queues[i]
		want[i] = rat(max(0, min(q.Limit[r], q.Request[r])))
		quota := q.Quota[r]
		if quota == amount.Unlimited {
			quota = total
		}
		got[i] = rat(quota)
		if want[i].Cmp(got[i]) < 0 {
			got[i].Set(want[i])
		}
		left.Sub(left, got[i])
		priorities = append(priorities, q.Priority)
	}
	if left.Sign() < 0 {
		left.SetInt64(0)
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	slices.Reverse(priorities)
	for _, p := range priorities {
		referenceBand(queues, r, p, unit, factor, got, want, left)
	}
	out := make([]amount.Amount, len(queues))
	for i, g := range got {
		if !g.IsInt() {
			panic("a share is no whole number of smallest units")
		}
		out[i] = amount.Amount(g.Num().Int64())
	}
	return out, left
}

func referenceBand(queues []model.QueueNode, r int, priority int32, unit amount.Amount, factor int64, got, want []*big.Rat, left *big.Rat) {
	remainder := make([]*big.Rat, len(queues))
	for again := true; again && left.Sign() > 0; {
		again = false
		var open []int
		weights := new(big.Rat)
		for i := range queues {
			if queues[i].Priority == priority && want[i].Cmp(got[i]) > 0 {
				open = append(open, i)
				weights.Add(weights, rat(queues[i].Weight[r]))
			}
		}
		if weights.Sign() == 0 {
			return
		}
		s, sum := referenceParts(queues, r, open, weights, factor)
		if sum.Sign() == 0 {
			return
		}
		start := new(big.Rat).Set(left)
		for n, i := range open {
			give := new(big.Rat).Mul(start, s[n])
			give.Quo(give, sum)
			missing := new(big.Rat).Sub(want[i], got[i])
			take := floor(give, unit)
			if missing.Cmp(give) <= 0 {
				again = again || missing.Cmp(give) < 0
				take, give = missing, missing
			}
			got[i].Add(got[i], take)
			left.Sub(left, take)
			remainder[i] = new(big.Rat).Sub(give, take)
		}
	}
	referenceRemainders(queues, remainder, unit, got, want, left)
}

// referenceParts is s = max(0, nW + k·(nW − usage)) and its sum.
func referenceParts(queues []model.QueueNode, r int, open []int, weights *big.Rat, factor int64) ([]*big.Rat, *big.Rat) {
	k := big.NewRat(factor, 1000)
	sum := new(big.Rat)
	var parts []*big.Rat
	for _, i := range open {
		normal := new(big.Rat).Quo(rat(queues[i].Weight[r]), weights)
		s := new(big.Rat).Sub(normal, big.NewRat(int64(queues[i].Usage[r]), 1_000_000))
		s.Mul(s, k).Add(s, normal)
		if s.Sign() < 0 {
			s.SetInt64(0)
		}
		parts = append(parts, s)
		sum.Add(sum, s)
	}
	return parts, sum
}

func referenceRemainders(queues []model.QueueNode, remainder []*big.Rat, unit amount.Amount, got, want []*big.Rat, left *big.Rat) {
	for left.Sign() > 0 {
		best := -1
		for i, rest := range remainder {
			if rest == nil || rest.Sign() == 0 {
				continue
			}
			if best < 0 || referenceBefore(queues, remainder, i, best) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		take := new(big.Rat).Sub(want[best], got[best])
		for _, bound := range []*big.Rat{rat(unit), left} {
			if bound.Cmp(take) < 0 {
				take.Set(bound)
			}
		}
		got[best].Add(got[best], take)
		left.Sub(left, take)
		remainder[best] = nil
	}
}

func referenceBefore(queues []model.QueueNode, remainder []*big.Rat, a, b int) bool {
	if c := remainder[a].Cmp(remainder[b]); c != 0 {
		return c > 0
	}
	if queues[a].CreatedAt != queues[b].CreatedAt {
		return queues[a].CreatedAt < queues[b].CreatedAt
	}
	return queues[a].Name < queues[b].Name
}

func rat(a amount.Amount) *big.Rat { return new(big.Rat).SetInt64(int64(a)) }

// floor rounds x down to a multiple of unit.
func floor(x *big.Rat, unit amount.Amount) *big.Rat {
	u := rat(unit)
	q := new(big.Rat).Quo(x, u)
	whole := new(big.Int).Quo(q.Num(), q.Denom())
	return u.Mul(u, new(big.Rat).SetInt(whole))
}
