// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package kube is the only translation between Kubernetes and core. It watches
// the API server, builds model.Cluster from what it sees, and keeps the Ledger:
// who holds which GPU, assumed, bound or promised, keyed by pod UID.
//
// It decides nothing: Ledger.Decide hands the cluster to cycle.Decide and
// records the promises of the plan. It writes nothing to the API server: the
// extender and the queue controller do.
//
// Units are those of core/model: thousandths of a core, bytes, thousandths of a
// GPU, MiB of GPU memory, nanoseconds.
//
// Invariants, whatever the order of events:
//   - the API server is the truth; every entry can be rebuilt from it
//   - nothing is charged to a UID that the API server does not have
//   - what a pod holds is freed when the pod is gone or terminal, never because
//     it has a deletion timestamp
//   - on every GPU the sum of what is held or promised stays within the card,
//     unless somebody else bound a pod there
//   - Lookup and VictimsFor change nothing; Feasible at most runs the cycle that
//     is due anyway, so that it never changes what it answers for another pod
package kube
