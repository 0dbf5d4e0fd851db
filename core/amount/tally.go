// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package amount

import "math/bits"

// Tally is the exact sum of amounts that come and go, in 128 bits: whatever was
// added and taken away again leaves no residue, in any order, not even amounts
// as large as Unlimited. Only its reading saturates. The zero Tally is empty.
type Tally struct {
	hi int64
	lo uint64
}

// Add puts a on the tally.
func (t *Tally) Add(a Amount) {
	lo, carry := bits.Add64(t.lo, uint64(a), 0)
	t.lo = lo
	t.hi += int64(carry) + int64(a)>>63
}

// Take removes a from the tally.
func (t *Tally) Take(a Amount) {
	lo, borrow := bits.Sub64(t.lo, uint64(a), 0)
	t.lo = lo
	t.hi -= int64(borrow) + int64(a)>>63
}

// Value reads the tally, saturated to finite amounts.
func (t Tally) Value() Amount {
	switch {
	case t.hi == 0 && t.lo < uint64(Unlimited):
		return Amount(t.lo)
	case t.hi >= 0:
		return Unlimited - 1
	case t.hi == -1 && int64(t.lo) < 0 && Amount(t.lo) >= lowest:
		return Amount(t.lo)
	}
	return lowest
}
