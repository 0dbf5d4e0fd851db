// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package order says who goes first: which queue is served next, which job of a
// leaf queue, which sub-group and which pod of a job; victims are chosen in the
// reverse order. Every comparison is a total order (antisymmetric, transitive,
// and 0 only for the same thing), computed from exact ratios, so that an order
// does not depend on how the input is arranged nor on rounding.
//
// It never says whether somebody may run (package capacity) or take from
// another (package reclaim). Rule ids are those of docs/fairness.md.
package order
