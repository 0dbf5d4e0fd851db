// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenario is the file format of whole-cluster what-if runs: nodes,
// queues, workloads with their pods, an optional timeline of events, and what
// is expected of the outcome. It reads strictly (an unknown field, a wrong
// type or a dangling reference is one sentence that names the place), writes
// what it can read, and decides nothing.
//
// Units in the file: thousandths of a core, MiB, GPUs as decimals, seconds. In
// memory: the units of package model, exact integers. Read(Write(s)) equals s.
package scenario
