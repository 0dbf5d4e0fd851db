// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package explain makes the one reason, with its numbers, why a workload waits
// or a pod was evicted. Events, conditions, status, metrics and commands show
// it as made here; nothing else words a refusal.
package explain
