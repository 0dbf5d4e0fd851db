// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of Queue and PodGroup.
const (
	// ConditionReady on a Queue: its pods can be placed.
	ConditionReady = "Ready"
	// ConditionOverQuota on a Queue: it holds more than its quota of a
	// resource, which others may reclaim.
	ConditionOverQuota = "OverQuota"
	// ConditionBacklogged on a Queue: pods wait, so new ones are gated.
	ConditionBacklogged = "Backlogged"
	// ConditionScheduled on a PodGroup: the gang's minimum is bound. False
	// carries the reason why it waits.
	ConditionScheduled = "Scheduled"
	// ConditionDegraded on a PodGroup: the gang ran and is below its minimum, since
	// the time of the condition's last transition.
	ConditionDegraded = "Degraded"
)

// PodConditionWaiting on a pod without the gate: True while Fairslice gives it
// no place, with the reason and its numbers. kube-scheduler's own condition
// PodScheduled names only what its filters saw first.
const PodConditionWaiting = Group + "/Waiting"

// Reasons of ConditionDegraded on a PodGroup, beside ReasonStale.
const (
	// ReasonMembersLost: a member was lost, and the grace period runs.
	ReasonMembersLost = "MembersLost"
	// ReasonFinishing: a member was lost after others had finished; the rest is
	// left alone.
	ReasonFinishing = "Finishing"
	// ReasonComplete: the minimum is met, or the gang has not started.
	ReasonComplete = "Complete"
	// ReasonMinimumRaised: nobody was lost, the minimum was raised above what
	// runs.
	ReasonMinimumRaised = "MinimumRaised"
)

// Reasons of ConditionReady.
const (
	ReasonQueueReady = "Ready"
	// ReasonParentMissing: a queue above does not exist.
	ReasonParentMissing = "ParentMissing"
	// ReasonParentLoop: following parent comes back to the queue.
	ReasonParentLoop = "ParentLoop"
	// ReasonNotLeaf: the queue has queues below, so pods may not name it.
	ReasonNotLeaf = "NotLeaf"
)

// Reasons of ConditionScheduled on a PodGroup, of the PodScheduled condition
// and of events on pods. The message holds the numbers.
const (
	// ReasonScheduled: all that must start together is bound.
	ReasonScheduled = "Scheduled"
	// ReasonInvalidRequest: the object asks for what no node could ever give.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonQueueMissing: no queue is named, or it does not exist, or a queue
	// above it does not.
	ReasonQueueMissing = "QueueMissing"
	// ReasonQueueNotLeaf: the queue named has queues below it.
	ReasonQueueNotLeaf = "QueueNotLeaf"
	// ReasonOverLimit: a queue or one above would exceed its limit.
	ReasonOverLimit = "OverLimit"
	// ReasonNonPreemptibleOverQuota: non-preemptible work would exceed a quota.
	ReasonNonPreemptibleOverQuota = "NonPreemptibleOverQuota"
	// ReasonMembersMissing: fewer pods exist than must start together.
	ReasonMembersMissing = "MembersMissing"
	// ReasonSubGroupUnknown: a pod names a sub-group that its PodGroup lacks.
	ReasonSubGroupUnknown = "SubGroupUnknown"
	// ReasonPodGroupMissing: a pod names a PodGroup that does not exist.
	ReasonPodGroupMissing = "PodGroupMissing"
	// ReasonNoRoom: no node, or no set of nodes, has enough free.
	ReasonNoRoom = "NoRoom"
	// ReasonTopologyUnsatisfied: no domain of the required level has room.
	ReasonTopologyUnsatisfied = "TopologyUnsatisfied"
	// ReasonWaitingForVictims: room is promised and named pods must end first.
	ReasonWaitingForVictims = "WaitingForVictims"
	// ReasonWaitingForTurn: others of the queue come first.
	ReasonWaitingForTurn = "WaitingForTurn"
	// ReasonBindingRefused: the pod could not be bound, itself or with its gang; retried with
	// growing delays.
	ReasonBindingRefused = "BindingRefused"
	// ReasonStale: the gang fell below its minimum while running.
	ReasonStale = "Stale"
	// ReasonEvicted: the capacity went to another workload.
	ReasonEvicted = "Evicted"
)
