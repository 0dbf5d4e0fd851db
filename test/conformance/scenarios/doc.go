// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenarios runs whole-cluster scenarios, facts about how an existing
// scheduler behaves, through the simulator and compares the outcome. Each
// folder is one area. FAIRSLICE_CONFORMANCE_DIR names another folder that holds
// "scenarios" to read in place of this one.
//
// Differences on purpose are listed in known.go with their reasons, and in
// docs/differences.md. A listed scenario that comes out right fails the test
// too: the list must not outlive its reasons.
package scenarios
