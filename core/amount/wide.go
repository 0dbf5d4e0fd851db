// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package amount

import "math/bits"

// Wide is an unsigned 128-bit number, for weights and sums of products. Its
// operations saturate.
type Wide struct{ hi, lo uint64 }

var widest = Wide{^uint64(0), ^uint64(0)}

// WideOf returns a as a Wide; negative amounts are 0.
func WideOf(a Amount) Wide { return Wide{0, natural(a)} }

// IsZero says whether w is 0.
func (w Wide) IsZero() bool { return w.hi == 0 && w.lo == 0 }

// Compare returns −1, 0 or 1 as w is less than, equal to or greater than x.
func (w Wide) Compare(x Wide) int {
	switch {
	case w.hi < x.hi || w.hi == x.hi && w.lo < x.lo:
		return -1
	case w == x:
		return 0
	}
	return 1
}

// Add returns w+x.
func (w Wide) Add(x Wide) Wide {
	lo, carry := bits.Add64(w.lo, x.lo, 0)
	hi, over := bits.Add64(w.hi, x.hi, carry)
	if over != 0 {
		return widest
	}
	return Wide{hi, lo}
}

// Sub returns w−x, 0 if x is greater.
func (w Wide) Sub(x Wide) Wide {
	if w.Compare(x) <= 0 {
		return Wide{}
	}
	lo, borrow := bits.Sub64(w.lo, x.lo, 0)
	hi, _ := bits.Sub64(w.hi, x.hi, borrow)
	return Wide{hi, lo}
}

// Mul returns w·a; a negative a counts as 0.
func (w Wide) Mul(a Amount) Wide {
	m := natural(a)
	hi, lo := bits.Mul64(w.lo, m)
	over, top := bits.Mul64(w.hi, m)
	hi, carry := bits.Add64(hi, top, 0)
	if over != 0 || carry != 0 {
		return widest
	}
	return Wide{hi, lo}
}

// Bits returns how many bits w needs; 0 for 0.
func (w Wide) Bits() int {
	if w.hi != 0 {
		return 64 + bits.Len64(w.hi)
	}
	return bits.Len64(w.lo)
}

// ShiftRight returns floor(w/2^n).
func (w Wide) ShiftRight(n int) Wide {
	if n >= 64 {
		return Wide{0, w.hi >> (n - 64)}
	}
	return Wide{w.hi >> n, w.lo>>n | w.hi<<(64-n)}
}

// Halves returns w as its upper and lower 64 bits, for storage.
func (w Wide) Halves() (hi, lo uint64) { return w.hi, w.lo }

// WideFrom is the inverse of Halves.
func WideFrom(hi, lo uint64) Wide { return Wide{hi, lo} }

// Portion divides total in proportion: it returns floor(total·part/whole) and
// what is left of total·part over whole, exact over the 192 bits of the
// product. part must be at most whole, and whole not 0; a negative total counts
// as 0.
func Portion(total Amount, part, whole Wide) (Amount, Wide) {
	t := natural(total)
	if part.Compare(whole) >= 0 {
		return Amount(t), Wide{}
	}
	// n2 n1 n0 = total·part
	h0, n0 := bits.Mul64(part.lo, t)
	n2, l1 := bits.Mul64(part.hi, t)
	n1, carry := bits.Add64(h0, l1, 0)
	n2 += carry
	if whole.hi == 0 {
		q, rem := bits.Div64(n1, n0, whole.lo)
		return Amount(q), Wide{0, rem}
	}
	return divide192(n2, n1, n0, whole)
}

// divide192 divides three words by a divisor of two, knowing that the quotient
// is below 2^63: one step of Knuth's algorithm D (The Art of Computer
// Programming, volume 2, section 4.3.1).
func divide192(n2, n1, n0 uint64, d Wide) (Amount, Wide) {
	shift := uint(bits.LeadingZeros64(d.hi))
	dh := d.hi<<shift | high(d.lo, shift)
	dl := d.lo << shift
	n2 = n2<<shift | high(n1, shift)
	n1 = n1<<shift | high(n0, shift)
	n0 <<= shift

	q, rem := ^uint64(0), uint64(0)
	exact := false
	if n2 < dh {
		q, rem = bits.Div64(n2, n1, dh)
		exact = true
	} else {
		// n2 == dh: the estimate is 2^64−1 with remainder n1+dh.
		var over uint64
		rem, over = bits.Add64(n1, dh, 0)
		exact = over == 0
	}
	for exact {
		ph, pl := bits.Mul64(q, dl)
		if ph < rem || ph == rem && pl <= n0 {
			break
		}
		q--
		var over uint64
		rem, over = bits.Add64(rem, dh, 0)
		exact = over == 0
	}
	ph, pl := bits.Mul64(q, dl)
	lo, borrow := bits.Sub64(n0, pl, 0)
	hi, _ := bits.Sub64(rem, ph, borrow)
	return Amount(q), Wide{hi >> shift, lo>>shift | low(hi, shift)}
}

// high returns the bits that leave x on a left shift.
func high(x uint64, shift uint) uint64 { return x >> 1 >> (63 - shift) }

// low returns the bits that leave x on a right shift, moved to the top.
func low(x uint64, shift uint) uint64 { return x << 1 << (63 - shift) }
