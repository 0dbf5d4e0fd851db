// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package reclaim

import "github.com/fairslice/fairslice/core/model"

// PreemptMinRuntime is rule M1: how long a job of leaf queue victim is protected
// against preemption, in nanoseconds: the value of the nearest queue that sets
// one, from the leaf to the root, otherwise fallback.
func PreemptMinRuntime(t *model.QueueTree, victim int, fallback int64) int64 {
	for q := victim; q != model.NoQueue; q = t.Queues[q].Parent {
		if v := t.Queues[q].PreemptMinRuntime; v >= 0 {
			return v
		}
	}
	return max(0, fallback)
}

// ReclaimMinRuntimeByQueue is rule M2: how long a job of leaf queue victim is
// protected against reclaim when its own branch decides: as M1.
func ReclaimMinRuntimeByQueue(t *model.QueueTree, victim int, fallback int64) int64 { //nolint:revive // named after the queue's field, as PreemptMinRuntime is
	return nearestReclaimMinRuntime(t, victim, fallback)
}

// ReclaimMinRuntimeByAncestor is rule M3: how long a job of leaf queue victim is
// protected against the claimant's: the search for a value starts at the child
// of their lowest common ancestor, so that a leaf cannot protect itself against
// strangers better than its branch does. In different trees only the victim's
// root counts.
func ReclaimMinRuntimeByAncestor(t *model.QueueTree, claimant, victim int, fallback int64) int64 { //nolint:revive // named after the queue's field, as PreemptMinRuntime is
	_, from := Levelled(t, claimant, victim)
	return nearestReclaimMinRuntime(t, from, fallback)
}

func nearestReclaimMinRuntime(t *model.QueueTree, q int, fallback int64) int64 {
	for ; q != model.NoQueue; q = t.Queues[q].Parent {
		if v := t.Queues[q].ReclaimMinRuntime; v >= 0 {
			return v
		}
	}
	return max(0, fallback)
}

// Protected is rule M4: a job is protected while now < started + minimum, all in
// nanoseconds. A job that never started (0) is not.
func Protected(started, minimum, now int64) bool {
	return started != 0 && now-started < minimum
}
