// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package amount

import "math/bits"

// MulDiv returns floor(a·b/c) for amounts of at least 0, exact over the 128 bits
// of the product and saturated to Unlimited−1. A negative operand counts as 0;
// a c of 0 or less gives Unlimited−1, or 0 if the product is 0.
func MulDiv(a, b, c Amount) Amount {
	hi, lo := bits.Mul64(natural(a), natural(b))
	switch {
	case hi == 0 && lo == 0:
		return 0
	case c <= 0 || hi >= uint64(c):
		return Unlimited - 1
	}
	quotient, _ := bits.Div64(hi, lo, uint64(c))
	return finite(quotient)
}

// CompareProducts returns −1, 0 or 1 as a1·a2·a3 is less than, equal to or
// greater than b1·b2·b3, exact over all 192 bits. Negative factors count as 0.
// With a denominator's factors on the other side it compares ratios.
func CompareProducts(a1, a2, a3, b1, b2, b3 Amount) int {
	x, y := product3(a1, a2, a3), product3(b1, b2, b3)
	for i := range x {
		switch {
		case x[i] < y[i]:
			return -1
		case x[i] > y[i]:
			return 1
		}
	}
	return 0
}

// CompareRatios returns −1, 0 or 1 as an/ad is less than, equal to or greater
// than bn/bd. Denominators of 0 or less stand for an infinitely large ratio, also
// over 0; two of those are equal.
func CompareRatios(an, ad, bn, bd Amount) int {
	switch {
	case ad <= 0 && bd <= 0:
		return 0
	case ad <= 0:
		return 1
	case bd <= 0:
		return -1
	}
	return CompareProducts(an, bd, 1, bn, ad, 1)
}

// product3 returns a·b·c, most significant word first.
func product3(a, b, c Amount) [3]uint64 {
	hi, lo := bits.Mul64(natural(a), natural(b))
	carry, low := bits.Mul64(lo, natural(c))
	top, mid := bits.Mul64(hi, natural(c))
	mid, c1 := bits.Add64(mid, carry, 0)
	return [3]uint64{top + c1, mid, low}
}

func natural(a Amount) uint64 { return uint64(max(a, 0)) }

func finite(x uint64) Amount {
	if x >= uint64(Unlimited) {
		return Unlimited - 1
	}
	return Amount(x)
}
