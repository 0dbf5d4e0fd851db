// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// Plan is everything that one cycle decided. Slices are in decision order,
// equal for equal clusters.
type Plan struct {
	// Placements of pods, those that can start now and those that wait for
	// room which is being released or which Evictions release.
	Placements []Placement
	// Evictions each belong to a placement that they make possible, except
	// those of stale gangs.
	Evictions []Eviction
	// Withdrawn are UIDs of Promised pods whose promise no longer holds (node
	// gone, gang short, limit lowered, lost to a stronger claim): their room is
	// free again. Such a pod may have a new one among Placements.
	Withdrawn []string
	// Waits covers every workload with pods that cannot start now, because they
	// have no place or because its room is not free yet, by queue name and then
	// in the order of jobs.
	Waits []Wait
	// Short are keys of workloads that run in part: some group of theirs holds
	// room and is below its minimum. Whoever keeps Workload.StaleSince sets it
	// for these and clears it for all others.
	Short []string
	// Queues reports every queue, parents before children, then by name.
	Queues []QueueReport
}

// Placement gives a pod its place.
type Placement struct {
	Pod      string // UID
	Workload string
	Node     string
	GPUs     []model.HeldGPU
	// Awaits are UIDs of the releasing or evicted pods whose room the whole
	// gang waits for; empty when the pod can be bound now.
	Awaits []string
	// Kept is true for a promise of an earlier plan that stays where it is; only
	// Awaits may have changed.
	Kept bool
}

// Rule is the reason in kind for an eviction.
type Rule string

// Rules that evict.
const (
	RuleReclaim     Rule = "reclaim"
	RulePreempt     Rule = "preempt"
	RuleConsolidate Rule = "consolidate"
	RuleStaleGang   Rule = "staleGang"
)

// Eviction takes a pod's place away. Whoever carries the plan out counts the
// pod as Releasing at once, before the eviction is done: its room is promised
// already.
type Eviction struct {
	Pod      string // UID
	Workload string
	Rule     Rule
	// For is the claimant workload; "" for stale gangs.
	For string
	// MoveTo is the victim's proven and held new place, nil if it has none.
	MoveTo *Placement
	// Reason says who takes the place, by which rule and with which numbers.
	Reason explain.Reason
}

// Wait is a workload of which some pods have no place.
type Wait struct {
	Workload string
	Queue    string
	// Position in its queue, from 1.
	Position int
	// Pods are the UIDs that wait.
	Pods   []string
	Reason explain.Reason
}

// QueueReport is a queue's account at the end of the cycle, placements that
// can start now included.
type QueueReport struct {
	Name, Parent            string
	FairShare               model.Quantities
	Allocated               model.Quantities
	AllocatedNonPreemptible model.Quantities
	Requested               model.Quantities
	PendingPods             int
	PendingWorkloads        int
}
