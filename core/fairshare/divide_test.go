// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fairshare

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

const unlimited = amount.Unlimited

// gpuQueue is a root queue of a table, in thousandths of a GPU; created in the
// order of the table.
type gpuQueue struct {
	quota, limit, weight, request, usage amount.Amount
	priority                             int32
}

// roots builds a tree of roots named a, b, c …; a limit of 0 is unlimited.
func roots(total amount.Amount, queues ...gpuQueue) *model.QueueTree {
	t := &model.QueueTree{Resources: names[:3], Total: amount.Vector{total, 0, 0}}
	for i, q := range queues {
		limit := q.limit
		if limit == 0 {
			limit = unlimited
		}
		t.Roots = append(t.Roots, i)
		t.Queues = append(t.Queues, model.QueueNode{
			Name: string(rune('a' + i)), Parent: model.NoQueue, Priority: q.priority, CreatedAt: int64(i),
			Quota: amount.Vector{q.quota, 0, 0}, Limit: amount.Vector{limit, unlimited, unlimited},
			Weight: amount.Vector{q.weight, 0, 0}, Request: amount.Vector{q.request, 0, 0},
			Usage: amount.Vector{q.usage, 0, 0}, FairShare: make(amount.Vector, 3),
		})
	}
	return t
}

func gpuShares(t *model.QueueTree) (out []amount.Amount) {
	for i := range t.Queues {
		out = append(out, t.Queues[i].FairShare[0])
	}
	return out
}

func TestDivideTable(t *testing.T) {
	const gpu = 1000
	for _, c := range []struct {
		name   string
		total  amount.Amount
		factor int64
		queues []gpuQueue
		want   []amount.Amount
		left   amount.Amount
	}{
		{
			name: "D2 each has its quota though there is less", total: 10 * gpu,
			queues: []gpuQueue{{quota: 8 * gpu, request: 9 * gpu}, {quota: 8 * gpu, request: 9 * gpu}},
			want:   []amount.Amount{8 * gpu, 8 * gpu},
		},
		{
			name: "D2 unlimited quota is the whole level, up to the request", total: 10 * gpu,
			queues: []gpuQueue{{quota: unlimited, request: 7 * gpu}, {weight: 1, request: 9 * gpu}},
			want:   []amount.Amount{7 * gpu, 3 * gpu},
		},
		{
			name: "D3 equal weights, whole GPUs, the older one more", total: 5 * gpu,
			queues: []gpuQueue{{weight: 1, request: 9 * gpu}, {weight: 1, request: 9 * gpu}},
			want:   []amount.Amount{3 * gpu, 2 * gpu},
		},
		{
			name: "D3 weights 2:1", total: 10 * gpu,
			queues: []gpuQueue{{weight: 2, request: 99 * gpu}, {weight: 1, request: 99 * gpu}},
			want:   []amount.Amount{7 * gpu, 3 * gpu},
		},
		{
			name: "D3 a request below the give is served exactly", total: 4 * gpu,
			queues: []gpuQueue{{weight: 1, request: 500}, {weight: 1, request: 99 * gpu}},
			want:   []amount.Amount{500, 3500},
		},
		{
			name: "D3 weight 0 gets nothing over quota, also at top priority", total: 8 * gpu,
			queues: []gpuQueue{{priority: 9, quota: gpu, request: 8 * gpu}, {weight: 1, request: 3 * gpu}},
			want:   []amount.Amount{gpu, 3 * gpu}, left: 4 * gpu,
		},
		{
			name: "D3 limit caps what priority gives", total: 8 * gpu,
			queues: []gpuQueue{{priority: 9, limit: 2 * gpu, weight: 1, request: 8 * gpu}, {weight: 1, request: 8 * gpu}},
			want:   []amount.Amount{2 * gpu, 6 * gpu},
		},
		{
			name: "D4 a band's spare stays in the band", total: 3 * gpu,
			queues: []gpuQueue{{priority: 2, weight: 1, request: 9 * gpu}, {priority: 2, weight: 1, request: 9 * gpu}, {priority: 1, weight: 1, request: 9 * gpu}},
			want:   []amount.Amount{2 * gpu, gpu, 0},
		},
		{
			name: "D4 a remainder is no more than what is missing", total: gpu,
			queues: []gpuQueue{{weight: 1, request: 600}, {weight: 1, request: 600}},
			want:   []amount.Amount{600, 400},
		},
		{
			name: "D5 usage .5 and 0 at k = 1", total: 16 * gpu, factor: 1000,
			queues: []gpuQueue{{weight: 1, request: 99 * gpu, usage: 500_000}, {weight: 1, request: 99 * gpu}},
			want:   []amount.Amount{5 * gpu, 11 * gpu},
		},
		{
			name: "D5 usage 1 and 0 at k = 1", total: 16 * gpu, factor: 1000,
			queues: []gpuQueue{{weight: 1, request: 99 * gpu, usage: 1_000_000}, {weight: 1, request: 99 * gpu}},
			want:   []amount.Amount{0, 16 * gpu},
		},
		{
			name: "D5 all over their due: nobody gets more", total: 16 * gpu, factor: 1000,
			queues: []gpuQueue{{weight: 1, quota: gpu, request: 99 * gpu, usage: 1_000_000}, {weight: 1, request: 99 * gpu, usage: 1_000_000}},
			want:   []amount.Amount{gpu, 0}, left: 15 * gpu,
		},
		{
			name: "R25 (i) shares of 1.5 leave no GPU over", total: 3 * gpu,
			queues: []gpuQueue{{weight: 1, request: 2 * gpu}, {weight: 1, request: 2 * gpu}},
			want:   []amount.Amount{2 * gpu, gpu},
		},
		{
			name: "R25 (iii) queues without demand take nothing from those with it", total: 8 * gpu,
			queues: []gpuQueue{
				{weight: 50},
				{weight: 50},
				{weight: 200},
				{weight: 150, request: 8 * gpu},
				{weight: 1, request: 8 * gpu},
				{weight: 150},
				{weight: 240},
				{weight: 160},
			},
			want: []amount.Amount{0, 0, 0, 8 * gpu, 0, 0, 0, 0},
		},
		{
			name: "R28 what a queue borrows leaves others theirs", total: 6 * gpu, factor: 1000,
			queues: []gpuQueue{{quota: 3 * gpu, weight: 1, request: 6 * gpu}, {quota: 3 * gpu, weight: 1}, {weight: 1, request: gpu}},
			want:   []amount.Amount{5 * gpu, 0, gpu},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := roots(c.total, c.queues...)
			left := Divide(tree, c.factor)
			if got := gpuShares(tree); !slices.Equal(got, c.want) || left[0] != c.left {
				t.Errorf("got %v and %d left, want %v and %d", got, left[0], c.want, c.left)
			}
		})
	}
}

// R41: what a low queue waits for takes nothing from the share of another.
func TestR41PendingDemandDoesNotCrowdOut(t *testing.T) {
	tree := roots(2000, gpuQueue{weight: 1, request: 1_000_000}, gpuQueue{weight: 100, request: 1000})
	Divide(tree, 0)
	if got := gpuShares(tree); got[1] != 1000 {
		t.Errorf("MUST: high is entitled to its GPU; its share is %d", got[1])
	}
}

// Quotas per GPU model inside a shared total.
func TestGPUModels(t *testing.T) {
	type q struct{ quota, weight, request amount.Vector } // GPUs, A100, H100; in whole GPUs
	for _, c := range []struct {
		name  string
		total amount.Vector
		queue []q
		want  []amount.Vector
	}{
		{
			name: "models within the total", total: amount.Vector{16, 8, 8},
			queue: []q{{amount.Vector{8, 0, 8}, amount.Vector{0, 0, 0}, amount.Vector{8, 0, 8}}, {amount.Vector{0, 0, 0}, amount.Vector{1, 1, 1}, amount.Vector{16, 8, 8}}},
			want:  []amount.Vector{{8, 0, 8}, {8, 8, 0}},
		},
		{
			name: "the total caps the sum of models, in proportion", total: amount.Vector{16, 8, 8},
			queue: []q{{amount.Vector{4, 8, 8}, amount.Vector{0, 0, 0}, amount.Vector{16, 8, 8}}},
			want:  []amount.Vector{{4, 2, 2}},
		},
		{
			name: "quota of a model goes before the rest of the budget", total: amount.Vector{16, 8, 8},
			queue: []q{{amount.Vector{6, 0, 4}, amount.Vector{0, 1, 1}, amount.Vector{12, 8, 4}}},
			want:  []amount.Vector{{6, 2, 4}},
		},
		{
			name: "what contention for one model leaves goes to the other", total: amount.Vector{8, 4, 4},
			queue: []q{
				{amount.Vector{4, 0, 0}, amount.Vector{0, 1, 1}, amount.Vector{8, 4, 4}},
				{amount.Vector{4, 0, 4}, amount.Vector{0, 1, 1}, amount.Vector{4, 0, 4}},
			},
			want: []amount.Vector{{4, 4, 0}, {4, 0, 4}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := &model.QueueTree{Resources: names, Total: spread5(c.total)}
			for i, x := range c.queue {
				tree.Roots = append(tree.Roots, i)
				tree.Queues = append(tree.Queues, model.QueueNode{
					Name: fmt.Sprint(i), Parent: model.NoQueue, Quota: spread5(x.quota), Request: spread5(x.request),
					Weight: spread5(x.weight), FairShare: make(amount.Vector, 5),
					Limit: amount.Vector{unlimited, unlimited, unlimited, unlimited, unlimited},
				})
			}
			Divide(tree, 0)
			for i, want := range c.want {
				if got := tree.Queues[i].FairShare; !slices.Equal(got, spread5(want)) {
					t.Errorf("queue %d: got %v, want %v", i, got, spread5(want))
				}
			}
		})
	}
}

// spread5 widens (GPUs, A100, H100) in whole GPUs to the five resources.
func spread5(v amount.Vector) amount.Vector {
	return amount.Vector{v[0] * 1000, 0, 0, v[1] * 1000, v[2] * 1000}
}

// The time of a division grows with the number of queues, not faster.
func BenchmarkDivide(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		for _, factor := range []int64{0, 1000} {
			b.Run(fmt.Sprintf("queues=%d/usageFactor=%d", n, factor), func(b *testing.B) {
				tree := manyQueues(n, 11)
				for b.Loop() {
					Divide(tree, factor)
				}
				var sum amount.Amount
				for _, r := range tree.Roots {
					sum += tree.Queues[r].FairShare[0]
				}
				if sum != tree.Total[0] {
					b.Fatalf("%d of %d GPUs divided", sum, tree.Total[0])
				}
			})
		}
	}
}

// One level of all queues, each satisfied at another height, divides as fast.
func BenchmarkDivideFlat(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("queues=%d", n), func(b *testing.B) {
			tree := manyQueues(n, 1)
			for i := range tree.Queues {
				tree.Queues[i].Request = amount.Vector{amount.Amount(i*i%4_000_037 + 1), amount.Amount(i*31 + 1), amount.Amount(i*i + 1)}
			}
			for b.Loop() {
				Divide(tree, 1000)
			}
			if tree.Queues[0].FairShare[0] == 0 {
				b.Fatal("nothing divided")
			}
		})
	}
}

// manyQueues is a tree of n queues, family−1 below each root, that ask together
// for more than there is.
func manyQueues(n, family int) *model.QueueTree {
	t := &model.QueueTree{Resources: names[:3], Total: amount.Vector{amount.Amount(n) * 2000, amount.Amount(n) * 9000, amount.Amount(n) << 33}}
	add := func(parent, i int) int {
		x := amount.Amount(i*7919%1009 + 1)
		t.Queues = append(t.Queues, model.QueueNode{
			Name: fmt.Sprintf("q%06d", i), Parent: parent, Priority: int32(i % 3), CreatedAt: int64(i % 10),
			Quota: amount.Vector{x % 3 * 1000, x % 3000, x << 20}, Limit: amount.Vector{unlimited, unlimited, unlimited},
			Weight: amount.Vector{x % 10, 1, x}, Usage: amount.Vector{x % 7 * 100, 0, x % 50},
			Request:   amount.Vector{x * 100, x * 300, x << 27},
			FairShare: make(amount.Vector, 3),
		})
		return len(t.Queues) - 1
	}
	for i := range max(1, n/family) {
		root := add(model.NoQueue, i)
		t.Queues[root].Request = amount.Vector{9_000_000, 90_000_000, 1 << 50}
		t.Roots = append(t.Roots, root)
	}
	for i := len(t.Queues); i < n; i++ {
		parent := i % len(t.Roots)
		t.Queues[parent].Children = append(t.Queues[parent].Children, add(parent, i))
	}
	return t
}
