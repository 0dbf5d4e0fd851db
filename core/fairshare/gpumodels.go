// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// ofModels divides the GPU models of a level after its GPUs: each within caps
// that keep a member's sum inside its share of GPUs, then once more with what
// contention left of that share.
func (d *divider) ofModels(total, left amount.Vector) {
	d.resize()
	caps := d.modelCaps(total)
	budget := make([]amount.Amount, len(d.members))
	for i, q := range d.members {
		budget[i] = d.t.Queues[q].FairShare[model.AtGPU]
	}
	for m, r := range d.models {
		for i := range d.members {
			d.want[i] = caps[i*len(d.models)+m]
		}
		left[r] = d.overQuota(r, d.guarantee(r, total[r]))
		d.store(r)
		for i := range d.members {
			budget[i] -= d.got[i]
		}
	}
	for _, r := range d.models {
		d.load(r)
		for i, q := range d.members {
			budget[i] += d.got[i]
			d.want[i] = min(Requestable(&d.t.Queues[q], r), budget[i])
		}
		left[r] = d.overQuota(r, left[r])
		d.store(r)
		for i := range d.members {
			budget[i] -= d.got[i]
		}
	}
}

// modelCaps says how much each member may want of each model, by member and
// then by model.
func (d *divider) modelCaps(total amount.Vector) []amount.Amount {
	n := len(d.models)
	caps := make([]amount.Amount, n*len(d.members))
	for i, q := range d.members {
		d.capModels(&d.t.Queues[q], total, caps[i*n:(i+1)*n])
	}
	return caps
}

// capModels splits one queue's share of GPUs among the models that it requests:
// quotas first, the rest in proportion to what is requested over quota. If the
// quotas alone exceed it, they are cut in proportion.
func (d *divider) capModels(q *model.QueueNode, total amount.Vector, caps []amount.Amount) {
	budget := q.FairShare[model.AtGPU]
	var requested, guaranteed amount.Amount
	quotas := make([]seat, len(d.models))
	for m, r := range d.models {
		caps[m] = Requestable(q, r)
		quota := q.Quota[r]
		if quota == amount.Unlimited {
			quota = total[r]
		}
		g := max(0, min(quota, caps[m]))
		quotas[m] = seat{weight: min(g, maxWeight), missing: g}
		requested, guaranteed = requested.Add(caps[m]), guaranteed.Add(g)
	}
	if requested <= budget {
		return
	}
	if guaranteed >= budget {
		spread(budget, quotas, model.Unit(model.ResourceGPU), 0)
		for m := range caps {
			caps[m] = quotas[m].got
		}
		return
	}
	over := make([]seat, len(d.models))
	for m := range caps {
		rest := caps[m] - quotas[m].missing
		over[m] = seat{weight: min(rest, maxWeight), missing: rest}
	}
	spread(budget-guaranteed, over, model.Unit(model.ResourceGPU), 0)
	for m := range caps {
		caps[m] = quotas[m].missing + over[m].got
	}
}
