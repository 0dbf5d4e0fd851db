// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"context"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// Ledger knows the pods, the plan and what is taken. *kube.Ledger is the one
// in use. All methods are safe for concurrent use and never call the API
// server.
type Ledger interface {
	// Ready is nil once the ledger has seen the whole cluster.
	Ready() error
	// Lookup returns what is known of a pod.
	Lookup(uid string) (kube.PodView, bool)
	// Feasible sorts nodes into those where the pod may be bound now and those
	// where it may not, each with its reason. A node that the ledger does not
	// know is among the latter.
	Feasible(uid string, nodes []string) (ok []string, failed map[string]explain.Reason)
	// Assume takes room for the pod on node and returns the value of the
	// assignment annotation. It is idempotent for the same pod and node.
	Assume(uid, node string) (assignment string, err error)
	// ConfirmBound tells that the binding was written.
	ConfirmBound(uid string)
	// Forget tells that the binding was refused for certain: the pod is
	// promised again.
	Forget(uid string)
	// Doubt tells that the binding may or may not exist: the pod stays assumed
	// until it is read back.
	Doubt(uid string)
	// GangReady says whether the members of a workload that are assumed, bound
	// or finished reach its minimum, in every sub-group, and how many of how
	// many there are.
	GangReady(workload string) (ready bool, have, need int)
	// VictimsFor returns the plan's choice of victims for a pod: the node that
	// they make room on and their UIDs; "" when the plan wants none.
	VictimsFor(uid string) (node string, victims []string)
}

// Binder writes bindings to the API server.
type Binder interface {
	// Bind binds the pod to node and merges annotations into it in the same
	// write. It fails if the pod has another UID.
	Bind(ctx context.Context, pod PodKey, node string, annotations map[string]string) error
	// BoundTo reads the pod back: the node it is bound to, "" for none.
	// An error wrapping ErrPodGone means that no pod with this UID exists.
	BoundTo(ctx context.Context, pod PodKey) (node string, err error)
}

// PodKey names one pod for ever.
type PodKey struct{ UID, Namespace, Name string }

func (k PodKey) String() string { return k.Namespace + "/" + k.Name }
