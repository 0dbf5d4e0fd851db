// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package queuecontroller runs the cycle when something changed and writes what
// it decided to the API server: nominations, the removal of the gate
// fairslice.io/queue, evictions, status, conditions and events.
//
// It decides nothing (core does) and keeps no account (kube.Ledger does), so a
// new leader starts from the API server alone. The order of writes is fixed: the
// promise is in the ledger first, then the pod's nominatedNodeName is set, then
// the gate goes. Every write is derived again from the ledger when it is made,
// so a late or repeated one does no harm; a failed one is tried again with
// growing delays, and nothing else waits for it.
//
// Invariants: a gate is removed only from a pod whose promise can be used now; no
// victim is evicted before its claimant is promised the room; a reason is written
// when it changes, not when a cycle runs.
package queuecontroller
