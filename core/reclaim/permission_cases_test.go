// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package reclaim

import (
	"slices"
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// R23: two borrowers of weight 0 never take from each other.
func TestR23WeightlessBorrowersLeaveEachOtherAlone(t *testing.T) {
	tree := divide(accounts(account{name: "x", allocated: 1, request: 1}, account{name: "y", request: 1}), 1)
	if MayClaim(tree, Claim{Queue: 1, Need: gpus(1), Preemptible: true}) {
		t.Error("NEVER: repeated mutual eviction; y may claim from x")
	}
}

// R26: two victims come from two queues, whatever their names.
func TestR26VictimsAreSpreadOverQueues(t *testing.T) {
	for _, names := range [][]string{{"A", "B", "C", "D"}, {"D", "C", "B", "A"}} {
		var list []account
		for _, n := range names[:3] {
			list = append(list, account{name: n, allocated: 3, request: 3, weight: 1})
		}
		tree := divide(accounts(append(list, account{name: names[3], request: 2, weight: 1})...), 9)
		lost := make([]amount.Amount, 3)
		for range 2 {
			p := NewPermission(tree, Claim{Queue: 3, Need: gpus(1), Preemptible: true}, 1000)
			worst := slices.DeleteFunc(worstFirst(tree), func(q int) bool { return !p.Could(q) })
			if len(worst) == 0 {
				t.Fatal("MUST: two evictions; no queue may lose a second pod")
			}
			if _, ok := p.Take(worst[0], gpus(1)); !ok || !p.Allowed() {
				t.Fatal("MUST: two evictions; one is refused")
			}
			lost[worst[0]] += 1000
			tree.Queues[worst[0]].Allocated[0] -= 1000
			tree.Queues[3].Allocated[0] += 1000
		}
		if MayClaim(tree, Claim{Queue: 3, Need: gpus(1), Preemptible: true}) {
			t.Error("NEVER: 3 evictions; D may claim a third GPU")
		}
		slices.Sort(lost)
		if !slices.Equal(lost, []amount.Amount{0, 1000, 1000}) {
			t.Errorf("NEVER: both from one queue; lost %v with names %v", lost, names)
		}
	}
}

// worstFirst orders the first three queues as victims: last served, first taken.
func worstFirst(tree *model.QueueTree) []int {
	queues := []int{0, 1, 2}
	slices.SortFunc(queues, func(a, b int) int {
		return order.Queues(tree, order.Turn{Queue: b}, order.Turn{Queue: a})
	})
	return queues
}

// R28: a borrower may not evict a smaller borrower to borrow more.
func TestR28BorrowerDoesNotEvictBorrower(t *testing.T) {
	tree := divide(accounts(
		account{name: "ga", quota: 3, weight: 1, allocated: 5, request: 6},
		account{name: "gb", quota: 3, weight: 1},
		account{name: "be", weight: 1, allocated: 1, request: 1},
	), 6)
	if MayClaim(tree, Claim{Queue: 0, Need: gpus(1), Preemptible: true}) {
		t.Error("MUST: GA2 waits; it may claim")
	}
	p := NewPermission(tree, Claim{Queue: 0, Need: gpus(1), Preemptible: true}, 1000)
	if _, ok := p.Take(2, gpus(1)); ok {
		t.Error("MUST: BE1 keeps running; it may be taken")
	}
}

// R34 (i): a full cluster does not keep a queue from what it is guaranteed.
func TestR34FullClusterIsReclaimed(t *testing.T) {
	tree := divide(accounts(
		account{name: "ta", quota: 4, weight: 1, allocated: 5, request: 5},
		account{name: "tb", quota: 1, weight: 1, request: 1},
	), 5)
	claim := Claim{Queue: 1, Need: gpus(1), Preemptible: true}
	if !MayClaim(tree, claim) {
		t.Fatal("MUST: tb may claim its quota")
	}
	if !take(t, tree, claim, 1000, "ta", 1) {
		t.Error("MUST: one pod of ta is taken")
	}
	if take(t, tree, claim, 1000, "ta", 1, 1) {
		t.Error("MUST: exactly one; a second may be taken")
	}
}

// R34 (ii): one gang of 8 below A, either, makes room for B's quota.
func TestR34OneGangIsEnough(t *testing.T) {
	tree := divide(accounts(
		account{name: "A", quota: 16, weight: 1, allocated: 32, request: 32},
		account{name: "B", quota: 16, weight: 1, request: 8},
		account{name: "a1", parent: "A", quota: 8, weight: 1, allocated: 16, request: 16},
		account{name: "a2", parent: "A", quota: 8, weight: 1, allocated: 16, request: 16},
	), 32)
	claim := Claim{Queue: 1, Need: gpus(8), Preemptible: true}
	if !MayClaim(tree, claim) {
		t.Fatal("MUST: B may claim within its quota")
	}
	for _, victim := range []string{"a1", "a2"} {
		if !take(t, tree, claim, 1000, victim, 8) {
			t.Errorf("MUST: a gang of %s may be taken", victim)
		}
	}
}
