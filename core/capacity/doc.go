// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package capacity says whether a queue has room for more: within the limit of
// the queue and of every queue above it, and, for work that cannot be taken back,
// within their quotas. It looks at accounts only; whether a node has room is
// package fit, and fair share holds nobody back here.
//
// Invariant: work that passes every check leaves every queue within its limit,
// and all non-preemptible work within quota at every level.
package capacity
