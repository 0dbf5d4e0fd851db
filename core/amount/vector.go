// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package amount

// Vector holds one amount per resource; what the index means is the business
// of whoever made it. Vectors that meet in one operation are equally long,
// except that a nil Vector counts as zero everywhere.
type Vector = []Amount

// At returns v[i], 0 for a nil vector.
func At(v Vector, i int) Amount {
	if v == nil {
		return 0
	}
	return v[i]
}

// AddTo adds b to a in place, saturated.
func AddTo(a, b Vector) {
	for i, x := range b {
		a[i] = a[i].Add(x)
	}
}

// SubFrom takes b from a in place, saturated.
func SubFrom(a, b Vector) {
	for i, x := range b {
		a[i] = a[i].Sub(x)
	}
}

// Sum returns a+b as a new vector.
func Sum(a, b Vector) Vector {
	out := append(Vector(nil), a...)
	if out == nil {
		out = make(Vector, len(b))
	}
	AddTo(out, b)
	return out
}

// FirstOver returns the lowest index where want exceeds have, and false if want
// fits entirely. There is no tolerance: one unit too much is too much.
func FirstOver(want, have Vector) (int, bool) {
	for i, x := range want {
		if x > At(have, i) {
			return i, true
		}
	}
	return 0, false
}

// Fits says whether want is at most have everywhere.
func Fits(want, have Vector) bool {
	_, over := FirstOver(want, have)
	return !over
}

// IsZero says whether every amount of v is 0.
func IsZero(v Vector) bool {
	for _, x := range v {
		if x != 0 {
			return false
		}
	}
	return true
}
