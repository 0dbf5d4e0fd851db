// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package amount

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAddAndSubSaturate(t *testing.T) {
	for _, c := range []struct {
		a, b, sum, diff Amount
	}{
		{1, 2, 3, -1},
		{Unlimited, 7, Unlimited, Unlimited},
		{7, Unlimited, Unlimited, lowest},
		{Unlimited, Unlimited, Unlimited, Unlimited},
		{Unlimited - 1, 1, Unlimited - 1, Unlimited - 2},
		{Unlimited - 1, Unlimited - 1, Unlimited - 1, 0},
		{lowest, -1, lowest, lowest + 1},
		{lowest, lowest, lowest, 0},
		{lowest, Unlimited - 1, 0, lowest},
		{0, lowest - 1, lowest, Unlimited - 1},
	} {
		t.Run(fmt.Sprint(c.a, "and", c.b), func(t *testing.T) {
			if got := c.a.Add(c.b); got != c.sum {
				t.Errorf("Add = %d, want %d", got, c.sum)
			}
			if got := c.a.Sub(c.b); got != c.diff {
				t.Errorf("Sub = %d, want %d", got, c.diff)
			}
		})
	}
}

// A sum of finite amounts is never taken for Unlimited, and never wraps.
func TestFiniteStaysFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyAmount().Draw(t, "a"), anyAmount().Draw(t, "b")
		want := new(big.Int).Add(big.NewInt(int64(a)), big.NewInt(int64(b)))
		got := a.Add(b)
		if a == Unlimited || b == Unlimited {
			if got != Unlimited {
				t.Fatalf("%d + %d = %d, want Unlimited", a, b, got)
			}
			return
		}
		if clamp(want) != got {
			t.Fatalf("%d + %d = %d, want %s clamped", a, b, got, want)
		}
	})
}

func TestMulDivTable(t *testing.T) {
	for _, c := range []struct{ a, b, c, want Amount }{
		{10, 2, 3, 6},
		{Unlimited - 1, Unlimited - 1, Unlimited - 1, Unlimited - 1},
		{Unlimited - 1, 1 << 40, 1 << 41, (Unlimited - 1) / 2},
		{Unlimited - 1, 2, 1, Unlimited - 1},
		{5, 5, 0, Unlimited - 1},
		{0, 5, 0, 0},
		{-5, 5, 2, 0},
	} {
		if got := MulDiv(c.a, c.b, c.c); got != c.want {
			t.Errorf("MulDiv(%d, %d, %d) = %d, want %d", c.a, c.b, c.c, got, c.want)
		}
	}
}

func FuzzMulDiv(f *testing.F) {
	f.Add(int64(10), int64(2), int64(3))
	f.Add(int64(Unlimited), int64(Unlimited), int64(7))
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		if a < 0 || b < 0 || c <= 0 {
			a, b, c = max(a, 0), max(b, 0), max(c, 1)
		}
		want := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		want.Quo(want, big.NewInt(c))
		if got := MulDiv(Amount(a), Amount(b), Amount(c)); got != clamp(want) {
			t.Fatalf("MulDiv(%d, %d, %d) = %d, want %s", a, b, c, got, want)
		}
	})
}

func FuzzPortion(f *testing.F) {
	f.Add(int64(10), uint64(0), uint64(2), uint64(0), uint64(3))
	f.Add(int64(Unlimited-1), uint64(1)<<63, uint64(5), uint64(1)<<63, uint64(6))
	f.Add(int64(1)<<62, uint64(3), ^uint64(0), uint64(4), uint64(0))
	f.Add(int64(Unlimited-1), ^uint64(0), ^uint64(0)-1, ^uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, total int64, ph, pl, wh, wl uint64) {
		part, whole := Wide{ph, pl}, Wide{wh, wl}
		if part.Compare(whole) > 0 {
			part, whole = whole, part
		}
		if whole.IsZero() {
			return
		}
		got, rem := Portion(Amount(total), part, whole)
		product := new(big.Int).Mul(big.NewInt(max(total, 0)), bigOf(part))
		q, r := new(big.Int).QuoRem(product, bigOf(whole), new(big.Int))
		if q.Cmp(big.NewInt(int64(got))) != 0 || r.Cmp(bigOf(rem)) != 0 {
			t.Fatalf("Portion(%d, %v, %v) = %d rest %s, want %s rest %s", total, part, whole, got, bigOf(rem), q, r)
		}
	})
}

func TestPortionAgainstBigIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := Amount(rapid.Int64Min(0).Draw(t, "total"))
		part, whole := anyWide(t, "part"), anyWide(t, "whole")
		if part.Compare(whole) > 0 {
			part, whole = whole, part
		}
		if whole.IsZero() {
			whole = Wide{0, 1}
		}
		got, rem := Portion(total, part, whole)
		product := new(big.Int).Mul(big.NewInt(int64(total)), bigOf(part))
		q, r := new(big.Int).QuoRem(product, bigOf(whole), new(big.Int))
		if q.Cmp(big.NewInt(int64(got))) != 0 || r.Cmp(bigOf(rem)) != 0 {
			t.Fatalf("got %d rest %s, want %s rest %s", got, bigOf(rem), q, r)
		}
	})
}

func TestWideArithmetic(t *testing.T) {
	limit := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1))
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyWide(t, "a"), anyWide(t, "b")
		m := Amount(rapid.Int64Min(0).Draw(t, "m"))
		x, y := bigOf(a), bigOf(b)
		check := func(name string, got Wide, want *big.Int) {
			if want.Sign() < 0 {
				want = new(big.Int)
			}
			if want.Cmp(limit) > 0 {
				want = limit
			}
			if bigOf(got).Cmp(want) != 0 {
				t.Fatalf("%s = %s, want %s", name, bigOf(got), want)
			}
		}
		check("Add", a.Add(b), new(big.Int).Add(x, y))
		check("Sub", a.Sub(b), new(big.Int).Sub(x, y))
		check("Mul", a.Mul(m), new(big.Int).Mul(x, big.NewInt(int64(m))))
		n := rapid.IntRange(0, 140).Draw(t, "shift")
		check("ShiftRight", a.ShiftRight(n), new(big.Int).Rsh(x, uint(n)))
		if a.Bits() != x.BitLen() {
			t.Fatalf("Bits = %d, want %d", a.Bits(), x.BitLen())
		}
		if WideFrom(a.Halves()) != a {
			t.Fatal("Halves and WideFrom are not inverse")
		}
		if a.Compare(b) != x.Cmp(y) {
			t.Fatalf("Compare = %d, want %d", a.Compare(b), x.Cmp(y))
		}
	})
}

func TestCompareProductsAgainstBigIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(anyAmount(), 6, 6).Draw(t, "factors")
		product := func(f []Amount) *big.Int {
			p := big.NewInt(1)
			for _, x := range f {
				p.Mul(p, big.NewInt(int64(max(x, 0))))
			}
			return p
		}
		want := product(v[:3]).Cmp(product(v[3:]))
		if got := CompareProducts(v[0], v[1], v[2], v[3], v[4], v[5]); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestCompareRatios(t *testing.T) {
	for _, c := range []struct {
		an, ad, bn, bd Amount
		want           int
	}{
		{1, 2, 2, 4, 0},
		{1, 3, 333, 1000, 1},
		{1, 4000, 2, 4000, -1},
		{1, 0, 5, 1, 1},
		{0, 0, 5, 0, 0},
		{Unlimited - 1, Unlimited - 2, Unlimited - 2, Unlimited - 3, -1},
	} {
		if got := CompareRatios(c.an, c.ad, c.bn, c.bd); got != c.want {
			t.Errorf("%d/%d against %d/%d: got %d, want %d", c.an, c.ad, c.bn, c.bd, got, c.want)
		}
	}
}

func TestVectors(t *testing.T) {
	a := Vector{1, 2, Unlimited}
	if got := Sum(a, Vector{4, -2, 9}); !slices.Equal(got, Vector{5, 0, Unlimited}) {
		t.Errorf("Sum = %v", got)
	}
	if got := Sum(nil, Vector{1, 2}); !slices.Equal(got, Vector{1, 2}) {
		t.Errorf("Sum(nil, v) = %v", got)
	}
	if i, over := FirstOver(Vector{1, 3, 5}, a); !over || i != 1 {
		t.Errorf("FirstOver = %d, %v, want 1", i, over)
	}
	if !Fits(Vector{1, 2, 1 << 62}, a) || Fits(Vector{0, 0, 1}, nil) || !Fits(Vector{0, 0}, nil) {
		t.Error("Fits is wrong at the edges")
	}
	if !IsZero(nil) || !IsZero(Vector{0, 0}) || IsZero(Vector{0, 1}) {
		t.Error("IsZero is wrong")
	}
}

func anyAmount() *rapid.Generator[Amount] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(-100, 100), func(x int64) Amount { return Amount(x) }),
		rapid.Map(rapid.Int64Range(int64(lowest), int64(Unlimited)), func(x int64) Amount { return Amount(x) }),
		rapid.SampledFrom([]Amount{lowest, Unlimited, Unlimited - 1}),
	)
}

func anyWide(t *rapid.T, name string) Wide {
	hi := uint64(0)
	if rapid.Bool().Draw(t, name+" is large") {
		hi = rapid.Uint64().Draw(t, name+" high")
	}
	return Wide{hi, rapid.Uint64().Draw(t, name+" low")}
}

func bigOf(w Wide) *big.Int {
	b := new(big.Int).SetUint64(w.hi)
	return b.Or(b.Lsh(b, 64), new(big.Int).SetUint64(w.lo))
}

func clamp(x *big.Int) Amount {
	switch {
	case x.Cmp(big.NewInt(int64(Unlimited-1))) > 0:
		return Unlimited - 1
	case x.Cmp(big.NewInt(int64(lowest))) < 0:
		return lowest
	}
	return Amount(x.Int64())
}
