// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

const unlimited = amount.Unlimited

// chain is root > mid > leaf with everything unlimited and nothing quoted but
// GPUs, changed by set.
func chain(set func(root, mid, leaf *model.QueueNode)) *model.QueueTree {
	t := &model.QueueTree{
		Resources: []string{model.ResourceGPU, model.ResourceCPU, model.ResourceMemory},
		Quoted:    []bool{true, false, true},
	}
	for i, name := range []string{"org", "dept", "team-a"} {
		t.Queues = append(t.Queues, model.QueueNode{
			Name: name, Parent: i - 1,
			Quota: amount.Vector{unlimited, 0, unlimited}, Limit: amount.Vector{unlimited, unlimited, unlimited},
			Allocated: make(amount.Vector, 3), AllocatedNonPreemptible: make(amount.Vector, 3),
		})
	}
	set(&t.Queues[0], &t.Queues[1], &t.Queues[2])
	return t
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name        string
		set         func(root, mid, leaf *model.QueueNode)
		need        amount.Vector
		preemptible bool
		code        explain.Code
		want        string
	}{
		{
			name: "limit of the leaf",
			set:  func(_, _, leaf *model.QueueNode) { leaf.Limit[0], leaf.Allocated[0] = 8000, 7500 },
			need: amount.Vector{1000, 0, 0}, preemptible: true, code: explain.OverLimit,
			want: "queue team-a: limit of 8 GPUs reached: 7.5 allocated, 1 asked",
		},
		{
			name: "limit of an ancestor, in CPU",
			set:  func(_, mid, _ *model.QueueNode) { mid.Limit[1], mid.Allocated[1] = 4000, 3500 },
			need: amount.Vector{0, 501, 0}, preemptible: true, code: explain.OverLimit,
			want: "queue dept: limit of 4 CPU cores reached: 3.5 allocated, 0.501 asked",
		},
		{
			name: "limit of the root, in memory",
			set:  func(root, _, _ *model.QueueNode) { root.Limit[2], root.Allocated[2] = 8<<30, 15<<29 },
			need: amount.Vector{0, 0, 1 << 30}, code: explain.OverLimit,
			want: "queue org: limit of 8 GiB of memory reached: 7.5 GiB allocated, 1 GiB asked",
		},
		{
			name: "a limit of 0 means nothing",
			set:  func(_, _, leaf *model.QueueNode) { leaf.Limit[0] = 0 },
			need: amount.Vector{1, 0, 0}, preemptible: true, code: explain.OverLimit,
			want: "queue team-a: limit of 0 GPUs reached: 0 allocated, 0.001 asked",
		},
		{
			name: "a limit before a quota, whatever the level",
			set: func(root, _, leaf *model.QueueNode) {
				leaf.Quota[0] = 0
				root.Limit[0] = 500
			},
			need: amount.Vector{1000, 0, 0}, code: explain.OverLimit,
			want: "queue org: limit of 0.5 GPUs reached: 0 allocated, 1 asked",
		},
		{
			name: "quota for non-preemptible work",
			set: func(_, mid, _ *model.QueueNode) {
				mid.Quota[0], mid.AllocatedNonPreemptible[0], mid.Allocated[0] = 4000, 3000, 9000
			},
			need: amount.Vector{2000, 0, 0}, code: explain.NonPreemptibleOverQuota,
			want: "queue dept: non-preemptible work must fit its quota of 4 GPUs: 3 allocated to such work, 2 asked",
		},
		{
			name: "preemptible work needs no quota",
			set:  func(_, mid, _ *model.QueueNode) { mid.Quota[0] = 0 },
			need: amount.Vector{2000, 0, 0}, preemptible: true,
		},
		{
			name: "a resource that no queue has a quota for needs none",
			set:  func(_, _, _ *model.QueueNode) {},
			need: amount.Vector{0, 9000, 0},
		},
		{
			name: "what is not asked for is not checked",
			set:  func(_, _, leaf *model.QueueNode) { leaf.Limit[0], leaf.Allocated[0], leaf.Quota[0] = 1000, 2000, 0 },
			need: amount.Vector{0, 1, 1},
		},
		{
			name: "exactly full fits",
			set:  func(_, _, leaf *model.QueueNode) { leaf.Limit[0], leaf.Allocated[0] = 8000, 7000 },
			need: amount.Vector{1000, 0, 0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Check(chain(c.set), 2, c.need, c.preemptible)
			if c.code == "" {
				if got != nil {
					t.Fatalf("got %q, want room", got.Message)
				}
				return
			}
			if got == nil || got.Code != c.code || got.Message != c.want {
				t.Fatalf("got %+v\nwant %s %q", got, c.code, c.want)
			}
		})
	}
}

// R01: a request near the largest integer neither wraps nor passes.
func TestR01EnormousRequestIsRefused(t *testing.T) {
	tree := chain(func(_, _, leaf *model.QueueNode) { leaf.Limit[0], leaf.Quota[0] = 4000, 4000 })
	for _, asked := range []amount.Amount{unlimited - 1, unlimited, 1 << 62} {
		for _, allocated := range []amount.Amount{0, 1000, unlimited - 1} {
			tree.Queues[2].Allocated[0] = allocated
			reason := Check(tree, 2, amount.Vector{asked, 0, 0}, true)
			if reason == nil || reason.Resource != "gpu" || reason.Queue != "team-a" || reason.Limit != 4000 {
				t.Errorf("MUST: %d on %d is refused with the limit of team-a; got %+v", asked, allocated, reason)
			}
		}
	}
}

// R13: the parent's limit holds for the sum of its children, within one cycle.
func TestR13ParentLimitHoldsForChildren(t *testing.T) {
	tree := chain(func(_, mid, _ *model.QueueNode) { mid.Name, mid.Limit[0] = "T", 2000 })
	tree.Queues = append(tree.Queues, tree.Queues[2])
	s0, s1 := 2, 3
	tree.Queues[s1].Allocated = make(amount.Vector, 3)
	need := amount.Vector{2000, 0, 0}
	if reason := Check(tree, s0, need, true); reason != nil {
		t.Fatalf("MUST: J1 runs; got %q", reason.Message)
	}
	charge := func(f func(a, b amount.Vector)) {
		for q := s0; q != model.NoQueue; q = tree.Queues[q].Parent {
			f(tree.Queues[q].Allocated, need)
		}
	}
	charge(amount.AddTo)
	reason := Check(tree, s1, need, true)
	if reason == nil || reason.Queue != "T" {
		t.Fatalf("MUST: J2 waits with a reason naming T; got %+v", reason)
	}
	charge(amount.SubFrom)
	if reason := Check(tree, s1, need, true); reason != nil {
		t.Fatalf("MUST: J2 runs after J1 ended; got %q", reason.Message)
	}
}

// Whatever is admitted in whatever order, no queue exceeds its limit and no
// non-preemptible work its quota, at any level.
func TestAdmittedWorkStaysWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.OneOf(rapid.Int64Range(0, 9000), rapid.Just(int64(unlimited)))
		tree := chain(func(root, mid, leaf *model.QueueNode) {
			for _, q := range []*model.QueueNode{root, mid, leaf} {
				for r := range q.Limit {
					q.Limit[r] = amount.Amount(bound.Draw(t, "limit"))
					q.Quota[r] = amount.Amount(bound.Draw(t, "quota"))
				}
			}
		})
		for range rapid.IntRange(1, 12).Draw(t, "jobs") {
			need := make(amount.Vector, 3)
			for r := range need {
				need[r] = amount.Amount(rapid.Int64Range(0, 4000).Draw(t, "need"))
			}
			q := rapid.IntRange(0, 2).Draw(t, "queue")
			preemptible := rapid.Bool().Draw(t, "preemptible")
			if Check(tree, q, need, preemptible) != nil {
				continue
			}
			for ; q != model.NoQueue; q = tree.Queues[q].Parent {
				amount.AddTo(tree.Queues[q].Allocated, need)
				if !preemptible {
					amount.AddTo(tree.Queues[q].AllocatedNonPreemptible, need)
				}
			}
			for i := range tree.Queues {
				q := &tree.Queues[i]
				if !amount.Fits(q.Allocated, q.Limit) {
					t.Fatalf("%s: %v allocated, limit %v", q.Name, q.Allocated, q.Limit)
				}
				for r, firm := range q.AllocatedNonPreemptible {
					if tree.Quoted[r] && firm > q.Quota[r] {
						t.Fatalf("%s: %d non-preemptible of resource %d, quota %d", q.Name, firm, r, q.Quota[r])
					}
				}
			}
		}
	})
}
