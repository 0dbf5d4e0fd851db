// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"cmp"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
)

const (
	million   = 1_000_000
	maxWeight = amount.Amount(million * million)
	maxFactor = amount.Amount(1000 * million)
)

// seat is one taker of what is spread: a queue of a band, or a GPU model of a
// queue's budget.
type seat struct {
	member  int
	weight  amount.Amount
	usage   amount.Amount // millionths
	missing amount.Amount
	got     amount.Amount

	part amount.Wide // its e of this round
	// The last round's give is floored by cut, and over/E of a smallest unit.
	cut  amount.Amount
	over amount.Wide
}

// spread gives remaining to the seats, in whole units where a seat cannot be
// satisfied, and returns what nobody may have. Equal remainders go in the order
// of the seats. (docs/fairness.md D3, D4.)
func spread(remaining amount.Amount, seats []seat, unit, factor amount.Amount) amount.Amount {
	for again := true; again && remaining > 0; {
		whole := parts(seats, factor)
		if whole.IsZero() {
			return remaining
		}
		remaining, again = round(remaining, seats, whole, unit)
	}
	return remainders(remaining, seats, unit)
}

// parts sets each unsatisfied seat's e and returns their sum E.
func parts(seats []seat, factor amount.Amount) amount.Wide {
	var weights amount.Amount
	used := false
	for i := range seats {
		if seats[i].missing > 0 {
			weights = weights.Add(seats[i].weight)
			used = used || seats[i].usage > 0
		}
	}
	var whole amount.Wide
	for i := range seats {
		s := &seats[i]
		switch {
		case s.missing <= 0:
			s.part = amount.Wide{}
		case used && factor > 0:
			entitled := amount.WideOf(s.weight).Mul((1000 + factor) * million)
			s.part = entitled.Sub(amount.WideOf(factor).Mul(s.usage).Mul(weights))
		default:
			s.part = amount.WideOf(s.weight)
		}
		whole = whole.Add(s.part)
	}
	return whole
}

// round gives each unsatisfied seat its part of r, and says whether somebody
// needed less than that, so that another round has something to give.
func round(r amount.Amount, seats []seat, whole amount.Wide, unit amount.Amount) (left amount.Amount, again bool) {
	left = r
	for i := range seats {
		s := &seats[i]
		if s.missing <= 0 {
			continue
		}
		give, over := amount.Portion(r, s.part, whole)
		take := give - give%unit
		s.cut, s.over = give%unit, over
		if s.missing <= give {
			again = again || s.missing < give || !over.IsZero()
			take, s.cut, s.over = s.missing, 0, amount.Wide{}
		}
		s.got += take
		s.missing -= take
		left -= take
	}
	return left, again
}

// remainders hands out what flooring left: a unit each, or what the seat
// misses if that is less, largest remainder first.
func remainders(left amount.Amount, seats []seat, unit amount.Amount) amount.Amount {
	if left <= 0 {
		return 0
	}
	queue := make([]int, 0, len(seats))
	for i := range seats {
		if s := &seats[i]; s.missing > 0 && (s.cut > 0 || !s.over.IsZero()) {
			queue = append(queue, i)
		}
	}
	slices.SortStableFunc(queue, func(a, b int) int {
		if c := cmp.Compare(seats[b].cut, seats[a].cut); c != 0 {
			return c
		}
		return seats[b].over.Compare(seats[a].over)
	})
	for _, i := range queue {
		take := min(unit, seats[i].missing, left)
		seats[i].got += take
		seats[i].missing -= take
		left -= take
	}
	return left
}
