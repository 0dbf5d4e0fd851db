// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/fairslice/fairslice/core/amount"

// Indices of the resources that every node has; further ones follow in the
// order in which they were first seen, which decides nothing.
const (
	NodeCPU = iota
	NodeMemory
	NodePods
	fixedNodeResources
)

// Use is what is taken of one GPU.
type Use struct {
	Milli, MiB int64
	// Pods is the number of claims that take it.
	Pods int32
}

// LiveGPU is a GPU with its two accounts: Held is taken now, by what runs and
// what is being released; Booked is taken once all that is being released is
// gone, by what runs and what was promised.
type LiveGPU struct {
	GPU
	Held, Booked Use
}

// LiveNode is a node with its accounts, which have the two views of LiveGPU.
// Something fits now if it fits both, and fits later if it fits Booked.
type LiveNode struct {
	Spec *Node
	// Index is the node's position in name order.
	Index int
	// Plain nodes have no GPUs, and no MIG instances either.
	Plain bool
	// Usable nodes are ready, schedulable and take pods.
	Usable bool
	// Cap, Held and Booked are indexed by node resource and equally long.
	Cap, Held, Booked []int64
	GPUs              []LiveGPU // by ID
	// Pods hold or book room here, by UID after Settle.
	Pods []*LivePod
	// WholeFree and WholeFreeNow count healthy GPUs that nothing books, and
	// of these the ones that nothing holds either.
	WholeFree, WholeFreeNow int
	// Class is equal for nodes with equal GPUs.
	Class int
	// Static changes whenever labels, taints or readiness change.
	Static uint32

	total    []amount.Amount
	sizes    []int64
	affinity []nodeAffinity
	dirty    bool
}

// GPUHold is what a pod takes of one GPU of its node.
type GPUHold struct {
	GPU, Claim int32
	Milli, MiB int64
}

// Phase is where a pod is in the state that what-if work sees.
type Phase int8

// Phases of a live pod.
const (
	// Idle pods have no room.
	Idle Phase = iota
	// Awaiting pods have booked room that is not free yet.
	Awaiting
	// Started pods book and hold room.
	Started
	// Leaving pods still hold room that is free for bookings.
	Leaving
	// Jammed pods hold room that is promised to nobody.
	Jammed
)

// Active says whether the phase counts as allocated.
func (p Phase) Active() bool { return p == Awaiting || p == Started }

// LivePod is a pod in the state that what-if work sees.
type LivePod struct {
	Spec     *Pod
	Workload *LiveWorkload // nil while unknown
	// Group is the index of the pod's leaf in Workload.Groups, -1 if it names
	// none.
	Group int
	Shape *Shape
	// Place is the pod's room in what-if work.
	Place
	// Charge is what the pod costs its queue, indexed as the queue tree.
	Charge []amount.Amount
	// Matches are affinity terms whose labels the pod has.
	Matches []int

	// Home is the place that the cluster gives, before any what-if work.
	Home Place
}

// Place is a pod's room.
type Place struct {
	Phase Phase
	Node  *LiveNode
	Held  []GPUHold
	// From is the room that a moved pod still holds, to be released.
	From *Room
}

// Room is a part of a node.
type Room struct {
	Node *LiveNode
	Held []GPUHold
}

// Group is a node of a workload's tree of sub-groups. The root is first, and
// parents come before children.
type Group struct {
	Name     string
	Parent   int
	Children []int // by name
	// Min is the number of members a leaf needs, or of children that an inner
	// group needs.
	Min      int
	Leaf     bool
	Topology *TopologyConstraint
	// Pods of a leaf in task order, finished ones excluded.
	Pods []*LivePod
	// Active counts pods that book room, Started those that hold it as well,
	// Leaving those on their way out, and Done members that ended well, which
	// count as long as others are active.
	Active, Started, Leaving, Done int
}

// LiveWorkload is a workload with its pods.
type LiveWorkload struct {
	Spec *Workload
	// Queue is the index of its leaf in the queue tree, NoQueue if it is in
	// none.
	Queue  int
	Groups []Group
	// Pods in task order, finished ones excluded.
	Pods []*LivePod
	// Pending counts pods that wait for the plan, Gated those that others
	// hold back.
	Pending, Gated int
	// Active counts pods that book room.
	Active int
	// Version changes whenever a pod gets or loses its place.
	Version uint64

	key     string
	all     []*LivePod
	cost    contribution
	inQueue int
	dirty   bool
	pos     [numSets]int
}

// contribution is what a workload adds to the accounts of its queue and of
// the queues above it, outside of what-if work.
type contribution struct {
	allocated, request []amount.Amount
	preemptible        bool
}
