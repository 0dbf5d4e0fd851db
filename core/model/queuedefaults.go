// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"

	"github.com/fairslice/fairslice/core/amount"
)

// IsGPUModel says whether a resource is the part of ResourceGPU that is of one
// model. Every GPU of a known model counts in both accounts.
func IsGPUModel(resource string) bool {
	return strings.HasPrefix(resource, ResourceGPUModelPrefix)
}

// Unit is the amount of one whole piece of a resource: 1000 for GPUs, of any
// or of one model, and 1 for everything else.
func Unit(resource string) amount.Amount {
	if resource == ResourceGPU || IsGPUModel(resource) {
		return 1000
	}
	return 1
}

// ApplyDefaults fills Quoted and the vectors of a tree whose Quota, Limit and
// Weight hold what the queues set, for what they leave out:
//
//   - A resource for which no queue sets a quota or a weight is not divided:
//     every queue has unlimited quota of it.
//   - A queue that sets quotas of GPU models but none of GPUs is guaranteed as
//     many GPUs as its models add up to.
//   - A queue that sets no weight for a GPU model has its weight for GPUs
//     there.
//
// spec returns what queue i of the tree was set to.
func (t *QueueTree) ApplyDefaults(spec func(i int) *Queue) {
	t.Quoted = make([]bool, len(t.Resources))
	weighted := make([]bool, len(t.Resources))
	for i := range t.Queues {
		q := spec(i)
		for r, name := range t.Resources {
			_, quota := q.Quota[name]
			_, weight := q.OverQuotaWeight[name]
			t.Quoted[r] = t.Quoted[r] || quota
			weighted[r] = weighted[r] || weight
		}
	}
	for i := range t.Queues {
		t.defaultModels(&t.Queues[i], spec(i))
	}
	t.Quoted[AtGPU] = t.Quoted[AtGPU] || t.anyModelQuoted()
	for r := range t.Resources {
		if t.Quoted[r] || weighted[r] || t.anyWeight(r) {
			continue
		}
		for i := range t.Queues {
			t.Queues[i].Quota[r] = amount.Unlimited
		}
	}
}

// defaultModels applies the second and third rule of ApplyDefaults.
func (t *QueueTree) defaultModels(n *QueueNode, q *Queue) {
	var ofModels amount.Amount
	for r, name := range t.Resources {
		if !IsGPUModel(name) {
			continue
		}
		ofModels = ofModels.Add(n.Quota[r])
		if _, set := q.OverQuotaWeight[name]; !set {
			n.Weight[r] = n.Weight[AtGPU]
		}
	}
	if _, set := q.Quota[ResourceGPU]; !set {
		n.Quota[AtGPU] = ofModels
	}
}

func (t *QueueTree) anyModelQuoted() bool {
	for r, name := range t.Resources {
		if t.Quoted[r] && IsGPUModel(name) {
			return true
		}
	}
	return false
}

func (t *QueueTree) anyWeight(r int) bool {
	for i := range t.Queues {
		if t.Queues[i].Weight[r] > 0 {
			return true
		}
	}
	return false
}

// QuotaCounts says whether quotas of resource r mean anything: whether some
// queue sets one.
func (t *QueueTree) QuotaCounts(r int) bool { return t.Quoted == nil || t.Quoted[r] }
