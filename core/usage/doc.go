// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package usage remembers what part of the cluster each queue has used, so that
// the division of spare capacity can favour those that had little (fairshare rule
// D5). The used part of a resource is
//
//	Σ allocated(t)·0.5^((now−t)/halfLife) / Σ capacity(t)·0.5^((now−t)/halfLife)
//
// over a sliding window. Between two observations the first one holds. Time is
// cut into slots, at most a quarter of the half-life and a sixty-fourth of the
// window long; a slot decays as a whole, by the age of its middle, and leaves the
// window as a whole.
//
// Units: nanoseconds; amounts in smallest units; used parts in millionths, to
// the nearest. Sums inside the open slot are exact in 128 bits; a closed slot keeps parts
// in billionths. No floats: a power of one half is a product of constants with 32
// binary digits.
//
// Invariants: the result depends on what was observed when, not on how often nor
// in which order queues were listed; a part is 0 to 1; an account read back from
// storage gives the same parts. Time while nobody observed (between reading an
// account back and the next observation) counts for nobody.
package usage
