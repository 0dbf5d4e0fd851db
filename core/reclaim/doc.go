// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package reclaim says which running work may be taken for which waiting work,
// between queues (reclaim) and inside one (preempt), and for how long a started
// job is protected. It looks at accounts; whether a claimant then fits on nodes
// is the search's business, and nothing is evicted without proof of that.
//
// Invariants: a queue within its share, and within its quota, loses nothing; a
// claimant never ends above its own share at the expense of a queue that stands
// lower; every rule is one function that cites its id in docs/fairness.md.
package reclaim
