// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
)

const unlimited = amount.Unlimited

// q is a queue of the tests: everything a vector of GPUs, CPU, memory and one
// GPU model, unlimited quota of all but GPUs unless set.
func q(name string, set func(*model.QueueNode)) model.QueueNode {
	n := model.QueueNode{
		Name: name, Parent: model.NoQueue, Priority: 100,
		Quota: amount.Vector{0, unlimited, unlimited, 0}, Limit: amount.Vector{unlimited, unlimited, unlimited, unlimited},
		Weight: amount.Vector{1, 1, 1, 1}, Usage: make(amount.Vector, 4), FairShare: make(amount.Vector, 4),
		Allocated: make(amount.Vector, 4), AllocatedNonPreemptible: make(amount.Vector, 4), Request: make(amount.Vector, 4),
	}
	set(&n)
	return n
}

func siblings(total amount.Amount, queues ...model.QueueNode) *model.QueueTree {
	t := &model.QueueTree{
		Resources: []string{model.ResourceGPU, model.ResourceCPU, model.ResourceMemory, "gpu.H100"},
		Total:     amount.Vector{total, 64_000, 1 << 38, total / 2},
		Queues:    queues,
	}
	for i := range queues {
		t.Roots = append(t.Roots, i)
	}
	return t
}

func gpus(n amount.Amount) amount.Vector { return amount.Vector{n, 0, 0, 0} }

// Each rule decides alone, with everything before it equal and everything after
// it against it.
func TestEachQueueRule(t *testing.T) {
	for _, c := range []struct {
		rule        string
		first, last func(*model.QueueNode)
		chunk       [2]amount.Vector
		total       amount.Amount
	}{
		{
			rule: "O1 over fair share in all three goes last",
			first: func(n *model.QueueNode) {
				n.FairShare = amount.Vector{1000, 1000, 1000, 0}
				n.Allocated = amount.Vector{9000, 9000, 1000, 0} // memory at its share
			},
			last: func(n *model.QueueNode) {
				n.Priority = 200
				n.FairShare = amount.Vector{1000, 1000, 1000, 0}
				n.Allocated = amount.Vector{1001, 1001, 1001, 0}
			},
		},
		{
			rule:  "O2 within quota goes first",
			first: func(n *model.QueueNode) { n.Quota[0], n.Allocated[0], n.FairShare[0] = 4000, 3000, 4000 },
			last: func(n *model.QueueNode) {
				n.Quota[0], n.Allocated[0], n.FairShare[0], n.Priority = 3999, 3000, 9000, 200
			},
			chunk: [2]amount.Vector{gpus(1000), gpus(1000)},
		},
		{
			rule:  "O3 higher priority goes first",
			first: func(n *model.QueueNode) { n.Priority, n.Allocated[0], n.FairShare[0] = 101, 4000, 4000 },
			last:  func(n *model.QueueNode) { n.Priority, n.Allocated[0], n.FairShare[0] = 100, 1000, 4000 },
			chunk: [2]amount.Vector{gpus(1000), gpus(1000)},
		},
		{
			rule:  "O4 a queue that may hold nothing goes last",
			first: func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 1000, 9_000_000 },
			last:  func(n *model.QueueNode) { n.FairShare[0] = 0 },
			chunk: [2]amount.Vector{gpus(1000), gpus(1)},
		},
		{
			rule:  "O5 smaller dominant share with the chunk",
			first: func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 50_000, 40_000 },
			last:  func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 50_000, 30_000 },
			chunk: [2]amount.Vector{gpus(1000), gpus(12_000)},
		},
		{
			rule:  "O5 exact where per mille would tie",
			first: func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 4_000_000, 1000 },
			last:  func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 4_000_000, 1001 },
			chunk: [2]amount.Vector{gpus(1000), gpus(1000)},
		},
		{
			rule:  "O6 smaller dominant share without the chunk",
			first: func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 2000, 1000 },
			last:  func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 3000, 2000 },
			chunk: [2]amount.Vector{gpus(1000), gpus(1000)},
		},
		{
			rule:  "O7 the weaker queue goes first",
			first: func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0], n.CreatedAt = 2000, 1000, 9 },
			last:  func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0], n.CreatedAt = 4000, 2000, 1 },
			chunk: [2]amount.Vector{gpus(1000), gpus(2000)},
		},
		{
			rule:  "O8 older goes first",
			first: func(n *model.QueueNode) { n.CreatedAt, n.Name = 1, "zz" },
			last:  func(n *model.QueueNode) { n.CreatedAt = 2 },
		},
		{
			rule:  "O9 lower name goes first",
			first: func(n *model.QueueNode) {},
			last:  func(n *model.QueueNode) { n.Name = "m" },
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			tree := siblings(4_000_000, q("a", c.first), q("b", c.last))
			a, b := Turn{Queue: 0, Chunk: c.chunk[0]}, Turn{Queue: 1, Chunk: c.chunk[1]}
			if got := Queues(tree, a, b); got != -1 {
				t.Errorf("got %d, want -1", got)
			}
			if got := Queues(tree, b, a); got != 1 {
				t.Errorf("reversed: got %d, want 1", got)
			}
		})
	}
}

// A GPU model decides only between queues whose chunks ask for it.
func TestModelsDecideOnlyWhenAskedFor(t *testing.T) {
	overH100 := func(n *model.QueueNode) {
		n.FairShare, n.Allocated = amount.Vector{8000, 0, 0, 0}, amount.Vector{1000, 0, 0, 1000}
	}
	idle := func(n *model.QueueNode) {
		n.FairShare, n.Allocated = amount.Vector{8000, 0, 0, 0}, amount.Vector{2000, 0, 0, 0}
	}
	tree := siblings(16_000, q("over", overH100), q("idle", idle))
	any := amount.Vector{1000, 0, 0, 0}
	if got := Queues(tree, Turn{Queue: 0, Chunk: any}, Turn{Queue: 1, Chunk: any}); got != -1 {
		t.Errorf("no model asked for: got %d, want the emptier queue first", got)
	}
	h100 := amount.Vector{1000, 0, 0, 1000}
	if got := Queues(tree, Turn{Queue: 0, Chunk: h100}, Turn{Queue: 1, Chunk: any}); got != 1 {
		t.Errorf("model asked for: got %d, want the queue over its share of it last", got)
	}
}

// Released victims count as gone.
func TestReleasedVictimsAreDeducted(t *testing.T) {
	same := func(n *model.QueueNode) { n.FairShare[0], n.Allocated[0] = 8000, 4000 }
	tree := siblings(16_000, q("a", same), q("b", same))
	if got := Queues(tree, Turn{Queue: 0}, Turn{Queue: 1, Released: gpus(1000)}); got != 1 {
		t.Errorf("got %d, want the queue that lost a victim first", got)
	}
}

// R22: a queue of weight 0 goes last, not first, and the order is the same in
// every cycle, also where all weights are 0.
func TestR22WeightZeroGoesLast(t *testing.T) {
	weight := func(w, allocated, request amount.Amount) func(*model.QueueNode) {
		return func(n *model.QueueNode) { n.Weight[0], n.Allocated[0], n.Request[0] = w, allocated, request }
	}
	tree := siblings(2000, q("a", weight(1, 1000, 2000)), q("z", weight(0, 0, 1000)))
	tree.Queues[1].CreatedAt = -1 // older
	fairshare.Divide(tree, 1000)
	a, z := Turn{Queue: 0, Chunk: gpus(1000)}, Turn{Queue: 1, Chunk: gpus(1000)}
	if got := Queues(tree, a, z); got != -1 {
		t.Errorf("MUST: A2 goes before Z1; got %d", got)
	}
	tree = siblings(2000, q("a", weight(0, 0, 1000)), q("z", weight(0, 0, 1000)))
	fairshare.Divide(tree, 1000)
	for range 100 {
		if got := Queues(tree, a, z); got != -1 {
			t.Fatalf("NEVER: the order changes with the same state; got %d", got)
		}
	}
}

// R23: one borrowed GPU of 4000 goes before two, though both are 0 per mille.
func TestR23SmallBorrowersAreNotTied(t *testing.T) {
	borrows := func(n, created amount.Amount) func(*model.QueueNode) {
		return func(q *model.QueueNode) {
			q.Allocated[0], q.Request[0], q.CreatedAt = n, n+1000, int64(created)
		}
	}
	rest := q("rest", func(n *model.QueueNode) { n.Quota[0], n.Allocated[0], n.Request[0] = 3_996_000, 3_996_000, 3_996_000 })
	tree := siblings(4_000_000, q("a", borrows(1000, 2)), q("b", borrows(2000, 1)), rest)
	fairshare.Divide(tree, 1000)
	if got := Queues(tree, Turn{Queue: 0, Chunk: gpus(1000)}, Turn{Queue: 1, Chunk: gpus(1000)}); got != -1 {
		t.Errorf("MUST: A gets the free GPU; got %d", got)
	}
}

// The order of queues is total, whatever the accounts look like.
func TestQueueOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Map(rapid.Int64Range(0, 3), func(x int64) amount.Amount { return amount.Amount(x * 500) })
		maybe := rapid.OneOf(small, rapid.Just(amount.Unlimited))
		vector := func(g *rapid.Generator[amount.Amount], what string) amount.Vector {
			return rapid.SliceOfN(g, 4, 4).Draw(t, what)
		}
		var queues []model.QueueNode
		var turns []Turn
		for i := range 6 {
			queues = append(queues, q(fmt.Sprint("q", i), func(n *model.QueueNode) {
				n.Priority = int32(rapid.IntRange(0, 1).Draw(t, "priority"))
				n.CreatedAt = int64(rapid.IntRange(0, 1).Draw(t, "created"))
				n.Quota, n.Limit = vector(maybe, "quota"), vector(maybe, "limit")
				n.FairShare, n.Allocated = vector(small, "share"), vector(small, "allocated")
			}))
			turns = append(turns, Turn{Queue: i, Chunk: vector(small, "chunk"), Released: vector(small, "released")})
		}
		tree := siblings(amount.Amount(rapid.IntRange(0, 2).Draw(t, "total")*1000), queues...)
		isTotal(t, turns, func(a, b Turn) int { return Queues(tree, a, b) })
	})
}

// isTotal fails unless compare is antisymmetric and transitive on items, with 0
// only on the diagonal.
func isTotal[T any](t *rapid.T, items []T, compare func(a, b T) int) {
	for i, a := range items {
		for j, b := range items {
			if got := compare(a, b); got != -compare(b, a) || (got == 0) != (i == j) {
				t.Fatalf("%+v against %+v is %d, reversed %d", a, b, got, compare(b, a))
			}
			for _, c := range items {
				if compare(a, b) < 0 && compare(b, c) < 0 && compare(a, c) >= 0 {
					t.Fatalf("not transitive:\n%+v\n%+v\n%+v", a, b, c)
				}
			}
		}
	}
}

func TestJobOrder(t *testing.T) {
	want := []Job{
		{Priority: 9, Fill: AboveMin, CreatedAt: 9, Key: "z"},
		{Priority: 5, Fill: BelowMin, CreatedAt: 9, Key: "y"},
		{Priority: 5, Fill: AtMin, CreatedAt: 3, Key: "x"},
		{Priority: 5, Fill: AtMin, CreatedAt: 4, Key: "a"},
		{Priority: 5, Fill: AtMin, CreatedAt: 4, Key: "b"},
		{Priority: 5, Fill: AboveMin, CreatedAt: 1, Key: "a"},
	}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "jobs")
		isTotal(t, got, Jobs)
		slices.SortFunc(got, Jobs)
		if !slices.Equal(got, want) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestSubGroupOrder(t *testing.T) {
	want := []SubGroup{
		{Name: "below-a", Active: 1, Min: 2},
		{Name: "below-b", Active: 0, Min: 9},
		{Name: "extras-only", Active: 0, Min: 0},
		{Name: "at-min", Active: 3, Min: 3},
		{Name: "third-over", Active: 4, Min: 3},
		{Name: "twice-a", Active: 4, Min: 2},
		{Name: "twice-b", Active: 2, Min: 1},
		{Name: "extras-three", Active: 3, Min: 0},
	}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "sub-groups")
		isTotal(t, got, SubGroups)
		slices.SortFunc(got, SubGroups)
		if !slices.Equal(got, want) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestPodOrder(t *testing.T) {
	want := []*model.Pod{
		{UID: "9", Name: "launcher", Leader: true, CreatedAt: 9},
		{UID: "8", Name: "w-8", HasOrder: true, Order: 7, CreatedAt: 9},
		{UID: "7", Name: "w-9", HasOrder: true, Order: -1, CreatedAt: 9},
		{UID: "6", Name: "w-6", CreatedAt: 1, Order: 99},
		{UID: "5", Name: "w-10", CreatedAt: 2},
		{UID: "4", Name: "w-2", CreatedAt: 2},
		{UID: "5", Name: "w-2", CreatedAt: 2},
	}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "pods")
		isTotal(t, got, Pods)
		slices.SortFunc(got, Pods)
		if !slices.Equal(got, want) {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestFillOf(t *testing.T) {
	for _, c := range []struct {
		active, minimum int
		want            Fill
	}{{0, 1, BelowMin}, {2, 2, AtMin}, {3, 2, AboveMin}, {0, 0, AtMin}} {
		if got := FillOf(c.active, c.minimum); got != c.want {
			t.Errorf("FillOf(%d, %d) = %d, want %d", c.active, c.minimum, got, c.want)
		}
	}
}

func BenchmarkSortQueues(b *testing.B) {
	var queues []model.QueueNode
	var turns []Turn
	for i := range 10_000 {
		queues = append(queues, q(fmt.Sprintf("q%05d", i), func(n *model.QueueNode) {
			n.FairShare[0], n.Allocated[0] = amount.Amount(1000+i%97*1000), amount.Amount(i%89*1000)
		}))
		turns = append(turns, Turn{Queue: i, Chunk: gpus(amount.Amount(i % 7 * 1000))})
	}
	tree := siblings(40_000_000, queues...)
	sorted := make([]Turn, len(turns))
	for b.Loop() {
		copy(sorted, turns)
		slices.SortFunc(sorted, func(x, y Turn) int { return Queues(tree, x, y) })
	}
	if !slices.IsSortedFunc(sorted, func(x, y Turn) int { return Queues(tree, x, y) }) {
		b.Fatal("not sorted")
	}
}
