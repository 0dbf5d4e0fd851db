// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package cycle decides: it takes a model.Cluster and returns a Plan of
// placements, evictions and waits with their reasons. It never writes
// anywhere, reads no clock and leaves the cluster as it found it. Equal
// clusters give byte-equal plans, whatever the order in which they were built.
// A plan that was carried out leaves nothing to decide: see docs/decisions.md W1.
package cycle
