// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/fairslice/fairslice/core/amount"

// Indices of the resources that every QueueTree has. Other names follow in
// byte order: those that some queue's quota, limit or weight names.
const (
	AtGPU = iota
	AtCPU
	AtMemory
	// FixedResources is the number of resources that every tree has.
	FixedResources
)

// NoQueue is the parent of a root.
const NoQueue = -1

// QueueTree is the accounts of all queues, the same shape for every rule that
// divides, orders, checks or reclaims. Queues whose parent does not exist, or
// that are their own ancestor, are not in it.
type QueueTree struct {
	// Resources are the names behind the indices of every vector.
	Resources []string
	// Queues holds parents before children, by depth and then by name, so
	// that a forward walk goes down and a backward walk goes up.
	Queues []QueueNode
	// Roots are indices of queues without a parent, by name.
	Roots []int
	// Total is the capacity that the roots divide: ready, schedulable nodes
	// less what pods of no queue hold.
	Total []amount.Amount
	// Quoted says per resource whether some queue sets a quota for it, 0
	// included; nil means that all are. Where none does, quota neither holds
	// non-preemptible work back nor puts a queue first. ApplyDefaults sets it.
	Quoted []bool
}

// QueueNode is one queue with its accounts. Vectors are indexed as
// QueueTree.Resources and are as long.
type QueueNode struct {
	Name string
	// Parent is an index into QueueTree.Queues, NoQueue for a root.
	Parent int
	// Children are indices by name; only a queue without any runs workloads.
	Children  []int
	Priority  int32
	CreatedAt int64

	Quota  []amount.Amount // 0 where not set, amount.Unlimited for all; see ApplyDefaults
	Limit  []amount.Amount // amount.Unlimited where not set
	Weight []amount.Amount // 0 where not set
	Usage  []amount.Amount // millionths of the cluster

	// FairShare is what the last division gave.
	FairShare []amount.Amount
	// Allocated is what bound and promised pods hold, AllocatedNonPreemptible
	// the part of it that non-preemptible workloads hold. Releasing pods count
	// in neither.
	Allocated               []amount.Amount
	AllocatedNonPreemptible []amount.Amount
	// Request is Allocated and what pending pods ask for.
	Request []amount.Amount

	// Minimum run times in nanoseconds, negative where unset.
	PreemptMinRuntime, ReclaimMinRuntime int64
	// EvictionsPerMinute and PreemptionDelay as in Queue.
	EvictionsPerMinute int
	PreemptionDelay    int64
}

// Leaf says whether workloads may run in queue q.
func (t *QueueTree) Leaf(q int) bool { return len(t.Queues[q].Children) == 0 }

// Index finds a queue by name.
func (t *QueueTree) Index(name string) (int, bool) {
	for i := range t.Queues {
		if t.Queues[i].Name == name {
			return i, true
		}
	}
	return NoQueue, false
}

// Resource finds the index of a resource name.
func (t *QueueTree) Resource(name string) (int, bool) {
	for i, r := range t.Resources {
		if r == name {
			return i, true
		}
	}
	return 0, false
}
