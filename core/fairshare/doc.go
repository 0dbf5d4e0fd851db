// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package fairshare divides the capacity of the cluster among the queues of a
// tree, level by level and resource by resource: first what each queue is
// guaranteed, then the spare by priority, weight and past usage. It says what a
// queue is entitled to; it holds nobody back and takes nothing away (packages
// capacity, order and reclaim do).
//
// # Exact rational arithmetic
//
// Amounts are integers in the resource's smallest unit. A queue's part of the
// spare is the rational number R·e/E, where R is what is left at the start of
// the round, e the queue's weight and E the sum of weights. It is computed as
// quotient and remainder over 192 bits, never rounded to a float. With usage u in
// millionths and factor k in thousandths, the formula
//
//	s = max(0, w/W + k·(w/W − u))
//
// times W·10^9 is the integer
//
//	e = max(0, w·(1000+k)·10^6 − k·u·W)
//
// so usage costs no precision either. Weights above 10^12 and factors above 10^9
// thousandths count as those; every product then stays within 128 bits.
//
// # Invariants
//
// The result does not depend on the order of the queues. A share is at most
// what the queue requests and its limit. Shares of a level add up to at most
// its total unless its quotas alone exceed it; then each queue still has
// min(quota, requestable). What a band of equal priority could still use is
// never left to a lower band. No floats, no map order.
//
// # GPU models
//
// A resource "gpu.<model>" is an account inside "gpu": a GPU counts in both, and
// both must allow it. GPUs are divided first; the result is a queue's budget over
// all models. Where its requests for models add up to more, the budget is
// split among them, quotas first and the rest in proportion; what contention for
// one model leaves of the budget then goes to the others. So a queue's shares of
// models never add up to more than its share of GPUs.
package fairshare
