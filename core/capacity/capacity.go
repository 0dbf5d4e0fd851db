// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// Check returns nil if leaf queue q and all queues above it have room for need,
// otherwise the reason: a limit first, then a quota, nearest queue first. What
// victims give back must already be taken off the accounts.
func Check(t *model.QueueTree, q int, need amount.Vector, preemptible bool) *explain.Reason {
	if reason := CheckLimit(t, q, need); reason != nil || preemptible {
		return reason
	}
	return CheckQuota(t, q, need)
}

// CheckLimit is rule C1: what is allocated and what is asked for stay within the
// limit of q and every queue above it.
func CheckLimit(t *model.QueueTree, q int, need amount.Vector) *explain.Reason {
	for ; q != model.NoQueue; q = t.Queues[q].Parent {
		n := &t.Queues[q]
		for r, asked := range need {
			if asked > 0 && n.Limit[r] != amount.Unlimited && n.Allocated[r].Add(asked) > n.Limit[r] {
				return OverLimit(n.Name, t.Resources[r], n.Limit[r], n.Allocated[r], asked)
			}
		}
	}
	return nil
}

// CheckQuota is rule C2: non-preemptible work stays within the quota of q and
// every queue above it, so that a quota can always be taken back. A resource that
// no queue has a quota for is not checked.
func CheckQuota(t *model.QueueTree, q int, need amount.Vector) *explain.Reason {
	for ; q != model.NoQueue; q = t.Queues[q].Parent {
		n := &t.Queues[q]
		for r, asked := range need {
			if asked > 0 && t.QuotaCounts(r) && n.Quota[r] != amount.Unlimited &&
				n.AllocatedNonPreemptible[r].Add(asked) > n.Quota[r] {
				return OverQuota(n.Name, t.Resources[r], n.Quota[r], n.AllocatedNonPreemptible[r], asked)
			}
		}
	}
	return nil
}

// OverLimit is the reason of C1, also for callers that keep accounts of their
// own.
func OverLimit(queue, resource string, limit, allocated, asked amount.Amount) *explain.Reason {
	return &explain.Reason{
		Code: explain.OverLimit,
		Message: fmt.Sprintf("queue %s: limit of %s reached: %s allocated, %s asked", queue,
			explain.Quantity(resource, limit), explain.Number(resource, allocated), explain.Number(resource, asked)),
		Queue: queue, Resource: resource,
		Limit: int64(limit), Allocated: int64(allocated), Requested: int64(asked),
	}
}

// OverQuota is the reason of C2.
func OverQuota(queue, resource string, quota, allocated, asked amount.Amount) *explain.Reason {
	return &explain.Reason{
		Code: explain.NonPreemptibleOverQuota,
		Message: fmt.Sprintf("queue %s: non-preemptible work must fit its quota of %s: %s allocated to such work, %s asked", queue,
			explain.Quantity(resource, quota), explain.Number(resource, allocated), explain.Number(resource, asked)),
		Queue: queue, Resource: resource,
		Limit: int64(quota), Allocated: int64(allocated), Requested: int64(asked),
	}
}
