// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

const h100, a100 = "gpu.NVIDIA-H100", "gpu.NVIDIA-A100"

var names = []string{model.ResourceGPU, model.ResourceCPU, model.ResourceMemory, a100, h100}

// queueGen draws one queue; amounts are small often, so that ties and
// sub-unit requests are common, and huge sometimes.
func drawQueue(t *rapid.T, name string) model.QueueNode {
	small := rapid.Int64Range(0, 40_000)
	unit := rapid.Map(rapid.Int64Range(0, 40), func(x int64) int64 { return x * 1000 })
	huge := rapid.Int64Range(0, int64(1)<<55)
	draw := func(what string, also ...*rapid.Generator[int64]) amount.Vector {
		v := make(amount.Vector, len(names))
		for r := range v {
			g := rapid.OneOf(append([]*rapid.Generator[int64]{small, unit, huge}, also...)...)
			v[r] = amount.Amount(g.Draw(t, name+" "+what))
		}
		return v
	}
	unlimited := rapid.Just(int64(amount.Unlimited))
	q := model.QueueNode{
		Name: name, Parent: model.NoQueue,
		Priority:  int32(rapid.IntRange(0, 2).Draw(t, name+" priority")),
		CreatedAt: int64(rapid.IntRange(0, 2).Draw(t, name+" created")),
		Quota:     draw("quota", unlimited, rapid.Just(int64(0))),
		Limit:     draw("limit", unlimited, unlimited),
		Request:   draw("request"),
		FairShare: make(amount.Vector, len(names)),
		Weight:    make(amount.Vector, len(names)),
		Usage:     make(amount.Vector, len(names)),
	}
	for r := range q.Weight {
		q.Weight[r] = amount.Amount(rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1_000_000_000_000)).Draw(t, name+" weight"))
		q.Usage[r] = amount.Amount(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1_000_000)).Draw(t, name+" usage"))
	}
	return q
}

// drawTree draws a tree of up to three levels.
func drawTree(t *rapid.T, most int) *model.QueueTree {
	tree := &model.QueueTree{Resources: names, Total: make(amount.Vector, len(names))}
	for r := range tree.Total {
		tree.Total[r] = amount.Amount(rapid.OneOf(rapid.Int64Range(0, 100_000), rapid.Int64Range(0, 1<<56)).Draw(t, "total"))
	}
	add := func(parent int, name string) int {
		q := drawQueue(t, name)
		q.Parent = parent
		tree.Queues = append(tree.Queues, q)
		return len(tree.Queues) - 1
	}
	level := []int{}
	for i := range rapid.IntRange(1, most).Draw(t, "roots") {
		tree.Roots = append(tree.Roots, add(model.NoQueue, fmt.Sprintf("r%d", i)))
	}
	level = append(level, tree.Roots...)
	for depth := range rapid.IntRange(0, 2).Draw(t, "depth") {
		var next []int
		for _, parent := range level {
			for i := range rapid.IntRange(0, 3).Draw(t, "children") {
				child := add(parent, fmt.Sprintf("%s-%d%d", tree.Queues[parent].Name, depth, i))
				tree.Queues[parent].Children = append(tree.Queues[parent].Children, child)
				next = append(next, child)
			}
		}
		level = next
	}
	return tree
}

func factorGen() *rapid.Generator[int64] {
	return rapid.SampledFrom([]int64{0, 1, 500, 1000, 7000, 1_000_000})
}

// The division is exact: it equals the one with rational numbers.
func TestDivisionEqualsRationalReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 6)
		tree.Resources = []string{"gpu", "cpu", "memory", "x.example/a", "x.example/b"}
		factor := factorGen().Draw(t, "factor")
		left := Divide(tree, factor)
		compare := func(what string, siblings []int, total amount.Vector) {
			var queues []model.QueueNode
			for _, q := range siblings {
				queues = append(queues, tree.Queues[q])
			}
			for r, name := range tree.Resources {
				want, rest := reference(queues, r, total[r], model.Unit(name), factor)
				for i := range queues {
					if queues[i].FairShare[r] != want[i] {
						t.Fatalf("%s: %s of %s is %d, want %d", what, name, queues[i].Name, queues[i].FairShare[r], want[i])
					}
				}
				if what == "roots" && rest.Cmp(new(big.Rat).SetInt64(int64(left[r]))) != 0 {
					t.Fatalf("%s left over: %d, want %s", name, left[r], rest)
				}
			}
		}
		compare("roots", tree.Roots, tree.Total)
		for i := range tree.Queues {
			compare(tree.Queues[i].Name, tree.Queues[i].Children, tree.Queues[i].FairShare)
		}
	})
}

// The order in which queues are listed is irrelevant.
func TestDivisionIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 8)
		factor := factorGen().Draw(t, "factor")
		Divide(tree, factor)
		first := shares(tree)
		tree.Roots = rapid.Permutation(tree.Roots).Draw(t, "roots")
		for i := range tree.Queues {
			tree.Queues[i].Children = rapid.Permutation(tree.Queues[i].Children).Draw(t, "children")
		}
		Divide(tree, factor)
		if got := shares(tree); !slices.EqualFunc(first, got, slices.Equal) {
			t.Fatalf("shares change with the order of queues:\n%v\n%v", first, got)
		}
	})
}

// Shares respect request and limit, guarantee quota, and add up to no more
// than there is, unless quotas alone exceed it.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 6)
		Divide(tree, factorGen().Draw(t, "factor"))
		check := func(siblings []int, total amount.Vector) {
			for r, name := range names {
				var sum, guaranteed amount.Amount
				for _, i := range siblings {
					q := &tree.Queues[i]
					share, want := q.FairShare[r], Requestable(q, r)
					floor := min(q.Quota[r], want)
					if q.Quota[r] == amount.Unlimited {
						floor = min(total[r], want)
					}
					if share < 0 || share > want {
						t.Fatalf("%s of %s: share %d, requestable %d", name, q.Name, share, want)
					}
					if !model.IsGPUModel(name) && share < floor {
						t.Fatalf("%s of %s: share %d below its guarantee %d", name, q.Name, share, floor)
					}
					sum, guaranteed = sum.Add(share), guaranteed.Add(floor)
				}
				if sum > max(total[r], guaranteed) {
					t.Fatalf("%s: shares add up to %d of %d, guarantees %d", name, sum, total[r], guaranteed)
				}
			}
		}
		check(tree.Roots, tree.Total)
		for i := range tree.Queues {
			check(tree.Queues[i].Children, tree.Queues[i].FairShare)
		}
	})
}

// Nothing is left over that a weighted queue without past usage could use.
func TestNothingUsableIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 8)
		left := Divide(tree, 0)
		for r, name := range names[:3] {
			for _, i := range tree.Roots {
				q := &tree.Queues[i]
				if left[r] > 0 && q.Weight[r] > 0 && q.FairShare[r] < Requestable(q, r) {
					t.Fatalf("%d %s left, but %s has %d of %d", left[r], name, q.Name, q.FairShare[r], Requestable(q, r))
				}
			}
		}
	})
}

// A queue's shares of GPU models never add up to more than its share of GPUs.
func TestModelSharesStayWithinGPUShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 6)
		Divide(tree, factorGen().Draw(t, "factor"))
		for i := range tree.Queues {
			q := &tree.Queues[i]
			if sum := q.FairShare[3].Add(q.FairShare[4]); sum > q.FairShare[model.AtGPU] {
				t.Fatalf("%s: models add up to %d, its share of GPUs is %d", q.Name, sum, q.FairShare[model.AtGPU])
			}
		}
	})
}

// More weight never costs a queue more than the rounding of one unit.
func TestShareGrowsWithWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t, 6)
		Divide(tree, 0)
		q := rapid.SampledFrom(tree.Roots).Draw(t, "queue")
		before := slices.Clone(tree.Queues[q].FairShare)
		for r := range names {
			tree.Queues[q].Weight[r] = tree.Queues[q].Weight[r].Add(amount.Amount(rapid.Int64Range(1, 1_000_000).Draw(t, "more")))
		}
		Divide(tree, 0)
		for r, name := range names[:3] {
			if after := tree.Queues[q].FairShare[r]; after < before[r]-model.Unit(name) {
				t.Fatalf("%s: share falls from %d to %d with more weight", name, before[r], after)
			}
		}
	})
}

func shares(tree *model.QueueTree) []amount.Vector {
	var out []amount.Vector
	for i := range tree.Queues {
		out = append(out, slices.Clone(tree.Queues[i].FairShare))
	}
	return out
}
