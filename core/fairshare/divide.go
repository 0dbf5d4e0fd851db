// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"cmp"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// Divide sets FairShare of every queue from its quota, limit, weight, priority,
// age, request and usage: the roots divide t.Total, the children of a queue its
// share. usageFactor is k in thousandths: 0 ignores usage. It returns what of
// t.Total no root may have, by resource.
//
// Time grows with queues × resources; each level is sorted once.
func Divide(t *model.QueueTree, usageFactor int64) amount.Vector {
	d := newDivider(t, usageFactor)
	spare := d.level(t.Roots, t.Total)
	for i := range t.Queues {
		if q := &t.Queues[i]; len(q.Children) > 0 {
			d.level(q.Children, q.FairShare)
		}
	}
	return spare
}

// Requestable is what queue q may ask for of resource r: its request up to its
// limit, at least 0.
func Requestable(q *model.QueueNode, r int) amount.Amount {
	return max(0, min(q.Limit[r], q.Request[r]))
}

// Allocatable is what queue q may hold of resource r without being over its
// share: its quota or fair share, whichever is more, up to its limit.
// (docs/fairness.md D6.)
func Allocatable(q *model.QueueNode, r int) amount.Amount {
	return min(q.Limit[r], max(q.Quota[r], q.FairShare[r]))
}

// divider holds the scratch space of one division.
type divider struct {
	t      *model.QueueTree
	factor amount.Amount
	models []int // resources that are GPU models

	members []int // of the level, by falling priority, then age, then name
	want    []amount.Amount
	got     []amount.Amount
	seats   []seat
}

func newDivider(t *model.QueueTree, usageFactor int64) *divider {
	d := &divider{t: t, factor: min(max(amount.Amount(usageFactor), 0), maxFactor)}
	for r, name := range t.Resources {
		if model.IsGPUModel(name) {
			d.models = append(d.models, r)
		}
	}
	return d
}

// level divides total among siblings and returns what is left of it.
func (d *divider) level(siblings []int, total amount.Vector) amount.Vector {
	d.members = append(d.members[:0], siblings...)
	slices.SortFunc(d.members, func(a, b int) int {
		x, y := &d.t.Queues[a], &d.t.Queues[b]
		return cmp.Or(
			cmp.Compare(y.Priority, x.Priority),
			cmp.Compare(x.CreatedAt, y.CreatedAt),
			cmp.Compare(x.Name, y.Name),
		)
	})
	left := make(amount.Vector, len(d.t.Resources))
	for r := range d.t.Resources {
		if !slices.Contains(d.models, r) {
			left[r] = d.resource(r, total[r])
		}
	}
	if len(d.models) > 0 {
		d.ofModels(total, left)
	}
	return left
}

// resource divides one resource that is no GPU model.
func (d *divider) resource(r int, total amount.Amount) amount.Amount {
	d.resize()
	for i, q := range d.members {
		d.want[i] = Requestable(&d.t.Queues[q], r)
	}
	left := d.overQuota(r, d.guarantee(r, total))
	d.store(r)
	return left
}

// guarantee gives every member its quota, up to what it wants, whatever its
// priority, and returns what is left of total. (docs/fairness.md D2.)
func (d *divider) guarantee(r int, total amount.Amount) amount.Amount {
	left := total
	for i, q := range d.members {
		quota := d.t.Queues[q].Quota[r]
		if quota == amount.Unlimited {
			quota = total
		}
		d.got[i] = max(0, min(quota, d.want[i]))
		left = left.Sub(d.got[i])
	}
	return max(0, left)
}

// overQuota spreads left over the bands, from the highest priority down, and
// returns what no band may have. (docs/fairness.md D3.)
func (d *divider) overQuota(r int, left amount.Amount) amount.Amount {
	unit := model.Unit(d.t.Resources[r])
	for from := 0; from < len(d.members) && left > 0; {
		priority := d.t.Queues[d.members[from]].Priority
		d.seats = d.seats[:0]
		to := from
		for ; to < len(d.members) && d.t.Queues[d.members[to]].Priority == priority; to++ {
			q := &d.t.Queues[d.members[to]]
			if d.want[to] > d.got[to] {
				d.seats = append(d.seats, seat{
					member:  to,
					weight:  min(max(q.Weight[r], 0), maxWeight),
					usage:   min(max(amount.At(q.Usage, r), 0), million),
					missing: d.want[to] - d.got[to],
				})
			}
		}
		left = spread(left, d.seats, unit, d.factor)
		for i := range d.seats {
			d.got[d.seats[i].member] += d.seats[i].got
		}
		from = to
	}
	return left
}

// store writes the members' result back to the tree.
func (d *divider) store(r int) {
	for i, q := range d.members {
		d.t.Queues[q].FairShare[r] = d.got[i]
	}
}

// load takes the members' result so far from the tree.
func (d *divider) load(r int) {
	for i, q := range d.members {
		d.got[i] = d.t.Queues[q].FairShare[r]
	}
}

// resize makes room for one amount a member.
func (d *divider) resize() {
	n := len(d.members)
	if cap(d.want) < n {
		d.want, d.got = make([]amount.Amount, n), make([]amount.Amount, n)
	}
	d.want, d.got = d.want[:n], d.got[:n]
}
