// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package sim runs a scenario through the real decision (cycle.DecideActions)
// and reports every state, decision and reason. It knows two kinds of time:
// rounds, each on a fresh snapshot whose clock stands still, in which the pods
// move on by a fixed table; and a timeline, in which a cycle runs whenever
// something changed and pods start, finish, and are promised room.
//
// After every step it checks, by its own arithmetic and not by that of the
// decision, that the outcome keeps the invariants of package cycle, and reports
// each breach. Equal scenarios give byte-equal reports.
//
// Two simplifications: a pod starts at the instant at which it is bound, and
// devices of resource slices (DRA) are treated as whole GPUs of their node.
package sim
