// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package reclaim

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
)

// drawAccounts draws a tree of two levels with consistent accounts and divided
// shares, and returns its leaves.
func drawAccounts(t *rapid.T) (*model.QueueTree, []int) {
	number := func(most int, what string) amount.Amount {
		return amount.Amount(rapid.IntRange(0, most).Draw(t, what))
	}
	var list []account
	var leaves []int
	for i := range rapid.IntRange(2, 3).Draw(t, "roots") {
		list = append(list, account{name: fmt.Sprint("r", i), weight: number(3, "weight"), quota: number(8, "quota")})
	}
	roots := len(list)
	for i := range roots {
		for c := range rapid.IntRange(1, 3).Draw(t, "children") {
			a := account{
				name: fmt.Sprintf("r%dc%d", i, c), parent: list[i].name, weight: number(3, "weight"),
				quota: number(6, "quota"), allocated: number(8, "allocated"),
			}
			a.request = a.allocated + number(8, "pending")
			a.firm = min(a.allocated, number(3, "firm"))
			list[i].allocated += a.allocated
			list[i].request += a.request
			list[i].firm += a.firm
			leaves = append(leaves, len(list))
			list = append(list, a)
		}
	}
	return divide(accounts(list...), number(30, "total")), leaves
}

// What is taken is taken from a queue that held more than it may, or more than
// its quota for the sake of one within its own; what is refused leaves no trace.
func TestNobodyWithinShareAndQuotaLoses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, leaves := drawAccounts(t)
		claim := Claim{
			Queue: rapid.SampledFrom(leaves).Draw(t, "claimant"),
			Need:  gpus(amount.Amount(rapid.IntRange(1, 6).Draw(t, "need"))), Preemptible: rapid.Bool().Draw(t, "preemptible"),
		}
		p := NewPermission(tree, claim, 1000)
		remaining := make([]amount.Amount, len(tree.Queues))
		for i := range remaining {
			remaining[i] = tree.Queues[i].Allocated[0]
		}
		for range rapid.IntRange(1, 6).Draw(t, "units") {
			victim := rapid.SampledFrom(leaves).Draw(t, "victim")
			unit := gpus(amount.Amount(rapid.IntRange(1, 4).Draw(t, "unit")))
			could := p.Could(victim)
			_, ok := p.Take(victim, unit)
			if ok != could {
				t.Fatalf("Could says %v, Take %v", could, ok)
			}
			if !ok {
				continue
			}
			_, theirs := Levelled(tree, claim.Queue, victim)
			v := &tree.Queues[theirs]
			if remaining[theirs] <= fairshare.Allocatable(v, 0) && remaining[theirs] <= v.Quota[0] {
				t.Fatalf("%s loses at %d: share %d, quota %d", v.Name, remaining[theirs], v.FairShare[0], v.Quota[0])
			}
			for q := victim; q != model.NoQueue; q = tree.Queues[q].Parent {
				remaining[q] -= unit[0]
			}
		}
		if p.Allowed() {
			checkBoundaries(t, tree, claim, remaining)
		}
	})
}

// checkBoundaries states R7 with rational numbers.
func checkBoundaries(t *rapid.T, tree *model.QueueTree, claim Claim, remaining []amount.Amount) {
	for a := claim.Queue; a != model.NoQueue; a = tree.Queues[a].Parent {
		ours := &tree.Queues[a]
		hold := remaining[a] + claim.Need[0]
		if hold <= ours.FairShare[0] {
			continue
		}
		for s := range tree.Queues {
			theirs := &tree.Queues[s]
			if s == a || theirs.Parent != ours.Parent || remaining[s] == theirs.Allocated[0] || theirs.FairShare[0] == 0 {
				continue
			}
			if ours.FairShare[0] == 0 ||
				big.NewRat(int64(hold), int64(ours.FairShare[0])).Cmp(big.NewRat(int64(remaining[s]), int64(theirs.FairShare[0]))) >= 0 {
				t.Fatalf("%s at %d/%d takes from %s at %d/%d", ours.Name, hold, ours.FairShare[0], theirs.Name, remaining[s], theirs.FairShare[0])
			}
		}
	}
}

// A walk gives the same answers after Reset as it did the first time, and
// leaves the accounts alone.
func TestResetForgetsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, leaves := drawAccounts(t)
		var before []amount.Vector
		for i := range tree.Queues {
			before = append(before, slices.Clone(tree.Queues[i].Allocated))
		}
		p := NewPermission(tree, Claim{Queue: leaves[0], Need: gpus(1), Preemptible: true}, 1000)
		victims := rapid.SliceOfN(rapid.SampledFrom(leaves), 1, 8).Draw(t, "victims")
		walk := func() (answers []bool) {
			for _, v := range victims {
				_, ok := p.Take(v, gpus(1))
				answers = append(answers, ok)
			}
			return append(answers, p.Allowed())
		}
		first := walk()
		p.Reset()
		if second := walk(); !slices.Equal(first, second) {
			t.Fatalf("first %v, after Reset %v", first, second)
		}
		for i := range tree.Queues {
			if !slices.Equal(before[i], tree.Queues[i].Allocated) {
				t.Fatalf("the walk changed the accounts of %s", tree.Queues[i].Name)
			}
		}
	})
}
