// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import "math/bits"

// Random is the generator SplitMix64 (Steele, Lea, Flood: "Fast splittable
// pseudorandom number generators", OOPSLA 2014). It is written out here so that
// a seed means the same for ever, whatever the toolchain.
type Random struct{ state uint64 }

// NewRandom returns the generator of a seed.
func NewRandom(seed uint64) *Random { return &Random{state: seed} }

// Next returns 64 random bits.
func (r *Random) Next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number from 0 to n−1, each equally likely. n must be
// positive. (Lemire: "Fast random integer generation in an interval", 2019.)
func (r *Random) Below(n uint64) uint64 {
	high, low := bits.Mul64(r.Next(), n)
	if low < n {
		for floor := -n % n; low < floor; {
			high, low = bits.Mul64(r.Next(), n)
		}
	}
	return high
}

// Shuffle permutes n items (Fisher and Yates, from the last to the first).
func (r *Random) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(r.Below(uint64(i+1))))
	}
}
