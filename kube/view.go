// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"github.com/fairslice/fairslice/core/explain"
)

// PodView is what the extender needs to know of a pod. It is a copy.
type PodView struct {
	UID, Namespace, Name string
	// Queue that manages the pod, "" if none does.
	Queue string
	// Interested is true if the pod has a queue or asks for GPU. All other
	// pods pass untouched.
	Interested bool
	// Workload is the key of the gang or single pod.
	Workload string
	// Gang counts the members of Workload.
	Gang GangView
	// PlannedNode is where the pod is promised, assumed or bound; "" if it has
	// no place.
	PlannedNode string
	// Startable is true if the pod may be bound to PlannedNode now: nothing
	// has to end there first.
	Startable bool
	// Assumed is true from Assume on, Bound once the API server has the pod on
	// its node.
	Assumed, Bound bool
	// Leaving is true for a pod that is being deleted or has ended.
	Leaving bool
	// Reason says why the pod waits; nil if it has a place or was not
	// considered yet.
	Reason *explain.Reason
}

// GangView counts the members of a workload, for the bind barrier: none is
// bound before Minimum are Assumed or Bound. When Held falls below Minimum the
// members at the barrier give up.
type GangView struct {
	// Minimum is the number of members that must run together, at least 1.
	Minimum int
	// Promised, Assumed and Bound members; each is counted once. Succeeded
	// ones need no place any more.
	Promised, Assumed, Bound, Succeeded int
	// Uneven is true while some sub-group lacks members of its own, however
	// many have arrived in all.
	Uneven bool
}

// Held is the number of members that have a place or finished with success.
func (g GangView) Held() int { return g.Promised + g.Assumed + g.Bound + g.Succeeded }

// Ready is true if all members that must run together have arrived: they are
// assumed, bound or finished.
func (g GangView) Ready() bool { return g.Assumed+g.Bound+g.Succeeded >= g.Minimum && !g.Uneven }
