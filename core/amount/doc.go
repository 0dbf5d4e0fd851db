// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package amount is the arithmetic of resource quantities: saturating int64
// amounts with an explicit Unlimited, vectors of them, exact products, ratios
// and proportions over 128 and 192 bits, and exact tallies. It knows no resource
// by name, decides nothing, and never uses floats.
package amount
