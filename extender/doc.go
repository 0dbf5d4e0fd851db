// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package extender answers the HTTP calls of an unmodified kube-scheduler:
// filter, prioritize, preempt and bind (k8s.io/kube-scheduler/extender/v1).
//
// Filter, prioritize and preempt read the plan and the ledger and leave nothing
// behind. Bind re-checks the ledger, holds the members of a gang until their
// minimum has arrived, and writes node and GPU assignment in one Binding.
//
// The package decides nothing: every yes, no and reason comes from the Ledger.
// It never answers 500 for a call that it understood, because kube-scheduler
// hides the reason of a 500 from the user; errors travel in the Error field of
// a 200. Answers hold empty lists and maps, never null, and only nodes that
// were asked for.
package extender
