// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
)

// Reclaimed says why a pod of queue theirs has to make room for a workload of
// queue ours, both indices of t, told in resource r.
func Reclaimed(t *model.QueueTree, ours, theirs, r int, claimant string) Reason {
	a, b := &t.Queues[ours], &t.Queues[theirs]
	name := t.Resources[r]
	share := fairshare.Allocatable(b, r)
	if b.Allocated[r] > share {
		return Reason{
			Code: ReclaimedForFairShare, Queue: b.Name, Resource: name, Limit: int64(share), Allocated: int64(b.Allocated[r]),
			Message: fmt.Sprintf("room reclaimed for %s of queue %s (%s of its fair share of %s in use): queue %s holds %s, its share is %s",
				claimant, a.Name, Number(name, a.Allocated[r]), Quantity(name, a.FairShare[r]), b.Name, Quantity(name, b.Allocated[r]), Number(name, share)),
		}
	}
	return Reason{
		Code: ReclaimedForQuota, Queue: b.Name, Resource: name, Limit: int64(b.Quota[r]), Allocated: int64(b.Allocated[r]),
		Message: fmt.Sprintf("room reclaimed for %s of queue %s (%s of its quota of %s in use): queue %s holds %s, its quota is %s",
			claimant, a.Name, Number(name, a.Allocated[r]), Quantity(name, a.Quota[r]), b.Name, Quantity(name, b.Allocated[r]), Number(name, b.Quota[r])),
	}
}

// Preempted says which workload of higher priority takes a pod's room.
func Preempted(queue, claimant string, priority, own int32) Reason {
	return Reason{
		Code: PreemptedByPriority, Queue: queue,
		Message: fmt.Sprintf("preempted in queue %s by %s: its priority is %d, this workload's is %d", queue, claimant, priority, own),
	}
}

// Moved says for whom a pod moves, and where to.
func Moved(claimant, node string) Reason {
	return Reason{Code: MovedToMakeRoom, Message: fmt.Sprintf("moved to node %s, where room is held for it, to make room in one piece for %s", node, claimant)}
}

// Gathered says why a pod moves for nobody in particular, and where to.
func Gathered(node, gain string) Reason {
	return Reason{Code: MovedToMakeRoom, Message: fmt.Sprintf("moved to node %s, where room is held for it, by scheduled consolidation %s", node, gain)}
}

// PassedOn adds to why a pod makes room that another workload gets that room in the
// end.
func PassedOn(r Reason, claimant string) Reason {
	r.Message += "; the room passes to " + claimant
	return r
}

// Stale says that a gang, or one of its sub-groups, ran in part for too long.
func Stale(workload, subGroup string, running int, grace int64) Reason {
	what := "gang " + workload
	if subGroup != "" {
		what = fmt.Sprintf("sub-group %s of %s", subGroup, workload)
	}
	if grace == 0 {
		return Reason{
			Code:    StaleGang,
			Message: fmt.Sprintf("%s: it fell below its minimum and gives up what is left of it, %s, to start whole again", what, count(running, "pod", "pods")),
		}
	}
	return Reason{
		Code:    StaleGang,
		Message: fmt.Sprintf("%s: with %s it has been below its minimum for longer than %s", what, count(running, "pod", "pods"), time.Duration(grace)),
	}
}

// Blocked says that a disruption budget does not allow the evictions that
// would make room.
func Blocked(budget, rule string) Reason {
	return Reason{
		Code: BudgetForbids, Budget: budget,
		Message: fmt.Sprintf("disruption budget %s does not allow the evictions that would make room by %s", budget, rule),
	}
}

// Refused says that evictions which would make room were refused; refusal is the
// sentence that says of which pod and why.
func Refused(refusal, rule string) Reason {
	return Reason{Code: EvictionRefused, Message: fmt.Sprintf("room by %s has to wait: %s", rule, refusal)}
}

// Paced says that the evictions which would make room come too fast: most a
// minute are allowed in a queue, or in the cluster if queue is "".
func Paced(queue string, most int, rule string) Reason {
	where := "in the cluster"
	if queue != "" {
		where = "in queue " + queue
	}
	return Reason{
		Code: EvictionPace, Queue: queue,
		Message: fmt.Sprintf("room by %s has to wait: no more than %s a minute %s", rule, count(most, "eviction", "evictions"), where),
	}
}
