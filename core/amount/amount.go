// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package amount

import "math"

// Amount is a quantity of one resource in that resource's smallest unit:
// thousandths of a core, bytes, thousandths of a GPU, MiB of GPU memory, or
// pieces. Arithmetic saturates instead of wrapping.
type Amount int64

// Unlimited is more than any amount. Adding to it or taking from it leaves it
// unlimited.
const Unlimited Amount = math.MaxInt64

// lowest is the most negative amount, kept symmetric to the largest finite
// one.
const lowest Amount = -(math.MaxInt64 - 1)

// Add returns a+b, saturated.
func (a Amount) Add(b Amount) Amount {
	if a == Unlimited || b == Unlimited {
		return Unlimited
	}
	sum := a + b
	switch {
	case a > 0 && b > 0 && (sum < 0 || sum == Unlimited):
		return Unlimited - 1
	case a < 0 && b < 0 && sum >= 0:
		return lowest
	}
	return max(sum, lowest)
}

// Sub returns a−b, saturated. Unlimited minus anything is Unlimited; a finite
// amount minus Unlimited is the lowest amount.
func (a Amount) Sub(b Amount) Amount {
	switch {
	case a == Unlimited:
		return Unlimited
	case b == Unlimited:
		return lowest
	}
	return a.Add(-max(b, lowest))
}

// Min returns the smaller of a and b.
func (a Amount) Min(b Amount) Amount { return min(a, b) }

// Max returns the larger of a and b.
func (a Amount) Max(b Amount) Amount { return max(a, b) }
