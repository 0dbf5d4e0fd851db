// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

const (
	minute = 60 * int64(billion)
	hour   = 60 * minute
	start  = 1_700_000_000 * int64(billion)
)

// holding is a tree of two queues below one root, in thousandths of a GPU.
func holding(total, a, b amount.Amount) *model.QueueTree {
	v := func(x amount.Amount) amount.Vector { return amount.Vector{x, 0, 0} }
	return &model.QueueTree{
		Resources: []string{model.ResourceGPU, model.ResourceCPU, model.ResourceMemory},
		Total:     v(total),
		Queues: []model.QueueNode{
			{Name: "root", Parent: model.NoQueue, Allocated: v(a.Add(b)), Children: []int{1, 2}},
			{Name: "a", Allocated: v(a)},
			{Name: "b", Allocated: v(b)},
		},
	}
}

func gpuPart(parts map[string]model.Quantities, queue string) amount.Amount {
	return parts[queue][model.ResourceGPU]
}

func TestPartsWithoutDecay(t *testing.T) {
	a := New(Options{Window: 10 * hour})
	a.Observe(start, holding(8000, 4000, 0))
	a.Observe(start+hour, holding(8000, 0, 8000))
	got := a.Parts(start + 2*hour)
	if a, b, root := gpuPart(got, "a"), gpuPart(got, "b"), gpuPart(got, "root"); a != 250_000 || b != 500_000 || root != 750_000 {
		t.Errorf("a %d, b %d, root %d; want 250000, 500000, 750000", a, b, root)
	}
	if _, set := got["a"][model.ResourceCPU]; set {
		t.Error("a resource without capacity is reported")
	}
}

// What ended one half-life ago weighs half of what ends now.
func TestHalfLife(t *testing.T) {
	a := New(Options{Window: 1000 * hour, HalfLife: 10 * hour})
	a.Observe(start, holding(8000, 8000, 0))
	a.Observe(start+5*minute, holding(8000, 0, 0))
	a.Observe(start+10*hour, holding(8000, 0, 8000))
	got := a.Parts(start + 10*hour + 5*minute)
	ratio := float64(gpuPart(got, "b")) / float64(gpuPart(got, "a"))
	if math.Abs(ratio-2) > 0.2 {
		t.Errorf("recent use weighs %.3f times the older, want about 2", ratio)
	}
}

func TestWindowForgets(t *testing.T) {
	a := New(Options{Window: 64 * minute})
	a.Observe(start, holding(8000, 8000, 0))
	a.Observe(start+minute, holding(8000, 0, 0))
	if got := gpuPart(a.Parts(start+30*minute), "a"); got == 0 {
		t.Error("forgotten within the window")
	}
	if got := gpuPart(a.Parts(start+70*minute), "a"); got != 0 {
		t.Errorf("%d remembered after the window", got)
	}
}

// A long silence costs no more than a window of slots.
func TestLongSilence(t *testing.T) {
	a := New(Options{Window: 64 * minute})
	a.Observe(start, holding(8000, 2000, 0))
	got := a.Parts(start + 1_000_000*hour)
	if gpuPart(got, "a") != 250_000 || len(a.closed) > slots+1 {
		t.Errorf("part %d in %d slots, want 250000 in at most %d", gpuPart(got, "a"), len(a.closed), slots+1)
	}
}

func TestClockGoingBackAddsNothing(t *testing.T) {
	a := New(Options{})
	a.Observe(start, holding(8000, 8000, 0))
	a.Observe(start-hour, holding(8000, 0, 8000))
	a.Observe(start+minute, holding(8000, 0, 0))
	got := a.Parts(start + minute)
	if gpuPart(got, "a") != 0 || gpuPart(got, "b") != million {
		t.Errorf("got %v, want only b", got)
	}
}

func TestDecayAgainstExp2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		halfLife := rapid.Int64Range(1, 1<<52).Draw(t, "half-life")
		age := rapid.Int64Range(0, 40*min(halfLife, 1<<56)).Draw(t, "age")
		got := float64(decay(age, halfLife)) / one
		want := math.Exp2(-float64(age) / float64(halfLife))
		if math.Abs(got-want) > want/65536+1.0/(1<<28) {
			t.Fatalf("0.5^(%d/%d) = %.12f, want %.12f", age, halfLife, got, want)
		}
	})
}

// event is a change of what two queues hold.
type event struct {
	after       int64
	total, a, b amount.Amount
}

func drawEvents(t *rapid.T) (out []event) {
	for range rapid.IntRange(1, 12).Draw(t, "events") {
		total := amount.Amount(rapid.Int64Range(0, 100_000).Draw(t, "total"))
		a := amount.Amount(rapid.Int64Range(0, int64(total)).Draw(t, "a"))
		b := amount.Amount(rapid.Int64Range(0, int64(total-a)).Draw(t, "b"))
		out = append(out, event{rapid.Int64Range(1, 40*minute).Draw(t, "after"), total, a, b})
	}
	return out
}

func drawOptions(t *rapid.T) Options {
	return Options{
		Window:   rapid.SampledFrom([]int64{0, hour, 7 * hour, 100 * hour}).Draw(t, "window"),
		HalfLife: rapid.SampledFrom([]int64{0, 3 * minute, hour, 50 * hour}).Draw(t, "half-life"),
	}
}

// How often the same is observed, and in which order queues are listed, is
// irrelevant, to the unit.
func TestObservingMoreOftenChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		once, often := New(o), New(o)
		now := start
		for _, e := range drawEvents(t) {
			tree := holding(e.total, e.a, e.b)
			once.Observe(now, tree)
			slices.Reverse(tree.Queues)
			for range rapid.IntRange(1, 4).Draw(t, "times") {
				often.Observe(now, tree)
				step := rapid.Int64Range(0, e.after).Draw(t, "step")
				now, e.after = now+step, e.after-step
				if rapid.Bool().Draw(t, "read") {
					often.Parts(now)
				}
			}
			now += e.after
		}
		if x, y := once.Parts(now), often.Parts(now); !equalParts(x, y) {
			t.Fatalf("observed once %v, often %v", x, y)
		}
	})
}

// Parts are 0 to 1; a parent has used what its children have, to the rounding of
// each.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(drawOptions(t))
		now := start
		for _, e := range drawEvents(t) {
			a.Observe(now, holding(e.total, e.a, e.b))
			now += e.after
		}
		got := a.Parts(now)
		root, sum := gpuPart(got, "root"), gpuPart(got, "a")+gpuPart(got, "b")
		if root < 0 || root > million || root < sum-2 || root > sum+2 {
			t.Fatalf("root %d, children %d", root, sum)
		}
	})
}

// Without decay and inside one window, parts are the exact integrals.
func TestPartsEqualExactIntegrals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		acc := New(Options{Window: 1000 * hour})
		now := start
		var used, whole float64
		for _, e := range drawEvents(t) {
			acc.Observe(now, holding(e.total, e.a, e.b))
			now += e.after
			used += float64(e.a) * float64(e.after)
			whole += float64(e.total) * float64(e.after)
		}
		got := gpuPart(acc.Parts(now), "a")
		if whole > 0 && math.Abs(float64(got)-used/whole*million) > 2 {
			t.Fatalf("got %d, want %.1f", got, used/whole*million)
		}
	})
}

// An account read back gives the same parts and the same bytes, also under other
// options, and goes on from there.
func TestStorageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		a := New(o)
		now := start
		for _, e := range drawEvents(t) {
			a.Observe(now, holding(e.total, e.a, e.b))
			now += e.after
		}
		want := a.Parts(now)
		stored, err := a.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		b := New(o)
		if err := b.UnmarshalBinary(stored); err != nil {
			t.Fatal(err)
		}
		again, err := b.MarshalBinary()
		if err != nil || !bytes.Equal(stored, again) {
			t.Fatalf("stored again: %d bytes, %v; first %d bytes", len(again), err, len(stored))
		}
		if got := b.Parts(now); !equalParts(got, want) {
			t.Fatalf("read back %v, want %v", got, want)
		}
		b.Observe(now, holding(1000, 1000, 0))
		b.Parts(now + minute)
		if len(b.closed) > 5*slots {
			t.Fatalf("%d slots after a restart", len(b.closed))
		}
	})
}

// Restarting again and again neither grows the account nor bends the result.
func TestManyRestarts(t *testing.T) {
	steady, restarted := New(Options{Window: 64 * hour}), New(Options{Window: 64 * hour})
	now := start
	for i := range 3000 {
		tree := holding(8000, amount.Amount(i%8*1000), 1000)
		steady.Observe(now, tree)
		restarted.Observe(now, tree)
		now += minute
		restarted.Parts(now)
		stored, err := restarted.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		restarted = New(Options{Window: 64 * hour})
		if err := restarted.UnmarshalBinary(stored); err != nil {
			t.Fatal(err)
		}
	}
	if len(restarted.closed) > slots+2 {
		t.Errorf("%d slots after restarts, want at most %d", len(restarted.closed), slots+2)
	}
	x, y := gpuPart(steady.Parts(now), "a"), gpuPart(restarted.Parts(now), "a")
	if d := x - y; d < -20 || d > 20 {
		t.Errorf("steady %d, restarted %d", x, y)
	}
}

// A thousand queues over a full window fit where a cluster can keep them.
func TestStoredSize(t *testing.T) {
	a := New(Options{})
	tree := holding(8_000_000, 0, 0)
	for i := range 1000 {
		tree.Queues = append(tree.Queues, model.QueueNode{Name: fmt.Sprintf("team-%04d", i), Allocated: amount.Vector{amount.Amount(i * 7), 0, 0}})
	}
	for d := range int64(8 * 24) {
		a.Observe(start+d*hour, tree)
	}
	stored, err := a.MarshalBinary()
	if err != nil || len(stored) > 700_000 {
		t.Errorf("%d bytes (%v), want at most 700000", len(stored), err)
	}
}

// Of the largest only, everything that is kept stays as it was.
func TestStoredLargest(t *testing.T) {
	a := New(Options{Window: 10 * hour})
	a.Observe(start, holding(8000, 1000, 4000))
	a.Observe(start+hour, holding(8000, 1000, 0))
	want := a.Parts(start + hour)
	for n, kept := range [][]string{{}, {"root"}, {"b", "root"}, {"a", "b", "root"}, {"a", "b", "root"}} {
		data, used := a.MarshalLargest(n)
		read := New(Options{Window: 10 * hour})
		if err := read.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		got := read.Parts(start + hour)
		if names := slices.Sorted(maps.Keys(got)); used != 3 || !slices.Equal(names, kept) {
			t.Errorf("the largest %d of %d are %v, want %v", n, used, names, kept)
		}
		for _, name := range kept {
			if !maps.Equal(got[name], want[name]) {
				t.Errorf("%s used %v, want %v", name, got[name], want[name])
			}
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	a := New(Options{Window: hour})
	for i := range int64(20) {
		a.Observe(start+i*5*minute, holding(8000, amount.Amount(i*100), 500))
	}
	stored, err := a.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(stored)
	f.Add([]byte{})
	f.Add([]byte{version})
	f.Add([]byte{version, 0, 0, 1, 1, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		a := New(Options{Window: hour, HalfLife: minute})
		a.Observe(start, holding(8000, 1000, 0))
		before, _ := a.MarshalBinary()
		if err := a.UnmarshalBinary(data); err != nil {
			if after, _ := a.MarshalBinary(); !bytes.Equal(before, after) {
				t.Fatal("damaged input changed the account")
			}
			return
		}
		for _, q := range a.Parts(start + hour) {
			for _, x := range q {
				if x < 0 || x > million {
					t.Fatalf("part %d", x)
				}
			}
		}
		a.Observe(start+hour, holding(8000, 1000, 0))
		a.Parts(start + 2*hour)
	})
}

func equalParts(x, y map[string]model.Quantities) bool {
	return maps.EqualFunc(x, y, maps.Equal[model.Quantities])
}
