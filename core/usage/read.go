// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// weightBits bounds the weight of a slot's capacity, so that its product with
// decay (32 bits) and a part (30 bits), summed over all slots, stays below 2^128.
const weightBits = 48

// Parts returns what part of the cluster each queue has used up to now, in
// millionths per resource, for model.Queue.Usage. Queues and resources that have
// used nothing are left out. Queues that no longer exist stay until their usage
// has left the window.
func (a *Account) Parts(now int64) map[string]model.Quantities {
	a.advance(now)
	all := a.finished(now)
	out := map[string]model.Quantities{}
	for r, name := range a.resources {
		a.partsOf(r, name, now, all, out)
	}
	return out
}

// partsOf adds one resource to out.
func (a *Account) partsOf(r int, name string, now int64, all []slot, out map[string]model.Quantities) {
	shift := 0
	for _, s := range all {
		if r < len(s.capacity) {
			shift = max(shift, s.capacity[r].Bits()-weightBits)
		}
	}
	var whole amount.Wide
	used := map[string]amount.Wide{}
	for _, s := range all {
		if r >= len(s.capacity) {
			continue
		}
		middle := s.from + (s.to-s.from)/2
		weight := s.capacity[r].ShiftRight(shift).Mul(decay(now-middle, a.halfLife))
		whole = whole.Add(weight.Mul(billion))
		for queue, parts := range s.parts {
			if r < len(parts) && parts[r] > 0 {
				used[queue] = used[queue].Add(weight.Mul(amount.Amount(parts[r])))
			}
		}
	}
	if whole.IsZero() {
		return
	}
	for queue, sum := range used {
		part, rest := amount.Portion(million, sum, whole)
		if rest.Add(rest).Compare(whole) >= 0 {
			part++
		}
		if part == 0 {
			continue
		}
		if out[queue] == nil {
			out[queue] = model.Quantities{}
		}
		out[queue][name] = part
	}
}
