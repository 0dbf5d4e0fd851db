// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import "github.com/fairslice/fairslice/core/amount"

// one is 1 in fixed point.
const one = 1 << 32

// roots are 2^(−1/2), 2^(−1/4) … 2^(−1/65536) in fixed point.
var roots = [...]uint64{
	3037000500, 3611622603, 3938502376, 4112874773, 4202935003, 4248701965, 4271771996, 4283353945,
	4289156690, 4292061010, 4293513907, 4294240540, 4294603903, 4294785595, 4294876445, 4294921870,
}

// decay returns 0.5^(age/halfLife) in fixed point; without a half-life nothing
// decays. The error is below 2^−16 of the result plus 2^−28.
func decay(age, halfLife int64) amount.Amount {
	if halfLife <= 0 || age <= 0 {
		return one
	}
	halves := age / halfLife
	if halves > 32 {
		return 0
	}
	steps := amount.MulDiv(amount.Amount(age%halfLife), 1<<len(roots), amount.Amount(halfLife))
	w := uint64(one)
	for i, root := range roots {
		if steps>>(len(roots)-1-i)&1 == 1 {
			w = w * root >> 32
		}
	}
	return amount.Amount(w >> halves)
}
