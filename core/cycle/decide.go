// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import "github.com/fairslice/fairslice/core/model"

// Action is one part of a cycle.
type Action string

// Actions, in the order in which a cycle runs them.
const (
	Allocate        Action = "allocate"
	Consolidate     Action = "consolidate"
	Reclaim         Action = "reclaim"
	Preempt         Action = "preempt"
	EvictStaleGangs Action = "evictStaleGangs"
)

// Decide runs every action and returns what to do. It leaves the cluster as
// it found it.
func Decide(c *model.Cluster) Plan {
	return DecideActions(c, Allocate, Consolidate, Reclaim, Preempt, EvictStaleGangs)
}

// DecideActions runs only the given actions, in the given order.
func DecideActions(c *model.Cluster, actions ...Action) Plan { return Plan{} }
