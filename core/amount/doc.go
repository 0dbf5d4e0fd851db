// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package amount is the arithmetic of resource quantities: saturating int64
// amounts with an explicit Unlimited, and vectors of them. It knows no resource
// by name, and never uses floats.
package amount
