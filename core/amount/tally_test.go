// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package amount

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// R10: the ledger reads exactly 0 after every complete set, in every order,
// also after amounts as large as the mark for unlimited.
func TestR10TallyLeavesNoResidue(t *testing.T) {
	sets := map[string][]Amount{
		"largest integer and 7":  {9223372036854775807, 7},
		"ten tenths of a GPU":    {100, 100, 100, 100, 100, 100, 100, 100, 100, 100},
		"three times 0.33 GPU":   {330, 330, 330},
		"seven sevenths, in MiB": {11702, 11702, 11702, 11702, 11702, 11702, 11702},
		"everything at its edge": {Unlimited, Unlimited, Unlimited - 1, lowest, lowest},
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := rapid.Permutation(set).Draw(t, "in")
				out := rapid.Permutation(set).Draw(t, "out")
				var tally Tally
				for _, a := range in {
					tally.Add(a)
				}
				for _, a := range out {
					tally.Take(a)
				}
				if tally != (Tally{}) || tally.Value() != 0 {
					t.Fatalf("tally reads %d, want exactly 0", tally.Value())
				}
			})
		})
	}
}

// R10: ten of 0.1 fill exactly one GPU: a tenth fits and an eleventh does not.
func TestR10TenTenthsFillOneGPU(t *testing.T) {
	const gpu = Amount(1000)
	var used Tally
	for i := 1; i <= 10; i++ {
		if free := gpu.Sub(used.Value()); free < 100 {
			t.Fatalf("the %d. tenth does not fit: %d free", i, free)
		}
		used.Add(100)
	}
	if free := gpu.Sub(used.Value()); free != 0 {
		t.Fatalf("%d free after ten tenths, want 0", free)
	}
}

func TestTallyReadsTheExactSumSaturated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tally Tally
		want := new(big.Int)
		for _, a := range rapid.SliceOf(anyAmount()).Draw(t, "amounts") {
			if rapid.Bool().Draw(t, "take") {
				tally.Take(a)
				want.Sub(want, big.NewInt(int64(a)))
			} else {
				tally.Add(a)
				want.Add(want, big.NewInt(int64(a)))
			}
			if got := tally.Value(); got != clamp(want) {
				t.Fatalf("reads %d, want %s", got, want)
			}
		}
	})
}
