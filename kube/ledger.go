// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"

	"github.com/fairslice/fairslice/core/explain"
)

// Ledger is the account of who holds what.
type Ledger struct{}

// Lookup returns what is known of the pod; false if the UID is not known.
func (l *Ledger) Lookup(uid string) (PodView, bool) { return PodView{}, false }

// Feasible splits nodes into those where the pod may be bound now and the
// others with the reason. It changes nothing.
func (l *Ledger) Feasible(uid string, nodes []string) (ok []string, failed map[string]explain.Reason) {
	return nil, nil
}

// Assume books the pod's place on node before the bind and returns the value
// for the annotation fairslice.io/gpu-assignment, "" for a pod without GPU. It
// re-checks the room. The same UID and node again returns the same value.
// Errors are one sentence.
func (l *Ledger) Assume(uid, node string) (assignment string, err error) {
	return "", errors.New("not ready")
}

// ConfirmBound notes that the API server took the bind.
func (l *Ledger) ConfirmBound(uid string) {}

// Forget notes that the bind did not happen, for certain: the pod is promised
// again. A bind whose outcome is unknown is not forgotten: its pod stays assumed
// until it is read back.
func (l *Ledger) Forget(uid string) {}

// GangReady says whether the members of a workload that are assumed, bound or
// finished reach its minimum, and how many of how many there are.
func (l *Ledger) GangReady(workload string) (ready bool, have, need int) { return false, 0, 0 }

// VictimsFor returns the node that the plan clears for the pod and the UIDs of
// the pods that must end there; "" if the plan clears none.
func (l *Ledger) VictimsFor(uid string) (node string, victims []string) { return "", nil }

// Ready is nil once the ledger has seen the whole API server.
func (l *Ledger) Ready() error { return errors.New("not ready") }
