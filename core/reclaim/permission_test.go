// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package reclaim

import (
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
)

const unlimited = amount.Unlimited

// account is one queue of a test in whole GPUs; CPU and memory are of no
// concern unless set.
type account struct {
	name, parent             string
	allocated, share, quota  amount.Amount
	firm                     amount.Amount // allocated to non-preemptible work
	cpuAllocated, cpuShare   amount.Amount
	modelHeld, modelShare    amount.Amount // of gpu.H100
	preemptRun, reclaimRun   int64         // 0 for unset, −1 for an explicit 0
	request, weight, created amount.Amount
	unlimitedShare           bool
}

// accounts builds a tree; parents come before children.
func accounts(list ...account) *model.QueueTree {
	t := &model.QueueTree{
		Resources: []string{model.ResourceGPU, model.ResourceCPU, model.ResourceMemory, "gpu.H100"},
		Quoted:    []bool{true, false, false, false},
		Total:     make(amount.Vector, 4),
	}
	runtime := func(x int64) int64 {
		switch x {
		case 0:
			return -1
		case -1:
			return 0
		}
		return x
	}
	for i, a := range list {
		n := model.QueueNode{
			Name: a.name, Parent: model.NoQueue, Priority: 100, CreatedAt: int64(a.created),
			Quota:                   amount.Vector{a.quota * 1000, 0, 0, 0},
			Limit:                   amount.Vector{unlimited, unlimited, unlimited, unlimited},
			Weight:                  amount.Vector{a.weight, 0, 0, 0},
			Request:                 amount.Vector{a.request * 1000, 0, 0, 0},
			FairShare:               amount.Vector{a.share * 1000, a.cpuShare, 0, a.modelShare * 1000},
			Allocated:               amount.Vector{a.allocated * 1000, a.cpuAllocated, 0, a.modelHeld * 1000},
			AllocatedNonPreemptible: amount.Vector{a.firm * 1000, 0, 0, 0},
			PreemptMinRuntime:       runtime(a.preemptRun), ReclaimMinRuntime: runtime(a.reclaimRun),
		}
		if a.unlimitedShare {
			n.FairShare[0] = unlimited
		}
		if a.parent == "" {
			t.Roots = append(t.Roots, i)
		} else {
			n.Parent, _ = t.Index(a.parent)
			t.Queues[n.Parent].Children = append(t.Queues[n.Parent].Children, i)
		}
		t.Queues = append(t.Queues, n)
	}
	return t
}

func at(t *testing.T, tree *model.QueueTree, name string) int {
	t.Helper()
	i, ok := tree.Index(name)
	if !ok {
		t.Fatalf("no queue %s", name)
	}
	return i
}

func gpus(n amount.Amount) amount.Vector { return amount.Vector{n * 1000, 0, 0, 0} }

// take walks over units of whole GPUs of one victim queue.
func take(t *testing.T, tree *model.QueueTree, c Claim, multiplier int64, victim string, units ...amount.Amount) bool {
	p := NewPermission(tree, c, multiplier)
	for _, u := range units {
		if _, ok := p.Take(at(t, tree, victim), gpus(u)); !ok {
			return false
		}
	}
	return p.Allowed()
}

// Worked cases; "a/b" is allocated and fair share.
func TestWalkAndBoundaries(t *testing.T) {
	claimant := account{name: "us", share: 8}
	for _, c := range []struct {
		name       string
		queues     []account
		claim      amount.Amount
		multiplier int64
		victim     string
		units      []amount.Amount
		want       bool
	}{
		{
			name: "4/4 is at its share", victim: "them", units: []amount.Amount{1}, claim: 1,
			queues: []account{claimant, {name: "them", allocated: 4, share: 4}},
		},
		{
			name: "5/4 gives a gang of 4, down to 1", victim: "them", units: []amount.Amount{4}, claim: 4, want: true,
			queues: []account{claimant, {name: "them", allocated: 5, share: 4}},
		},
		{
			name: "5/4 gives one of two single pods", victim: "them", units: []amount.Amount{1}, claim: 1, want: true,
			queues: []account{claimant, {name: "them", allocated: 5, share: 4}},
		},
		{
			name: "5/4 gives no second pod: it would start at the share", victim: "them", units: []amount.Amount{1, 1}, claim: 2,
			queues: []account{claimant, {name: "them", allocated: 5, share: 4}},
		},
		{
			name: "over in CPU alone, wanted for GPUs", victim: "them", units: []amount.Amount{1}, claim: 1, want: true,
			queues: []account{claimant, {name: "them", allocated: 4, share: 4, cpuAllocated: 20, cpuShare: 10}},
		},
		{
			name: "guarantee quota", victim: "them", units: []amount.Amount{4}, claim: 4, want: true,
			queues: []account{
				{name: "us", share: 4, quota: 4}, {name: "them", allocated: 6, share: 6, quota: 2},
			},
		},
		{
			name: "guarantee quota stops at the victim's quota", victim: "them", units: []amount.Amount{4, 1}, claim: 4,
			queues: []account{
				{name: "us", share: 4, quota: 4}, {name: "them", allocated: 6, share: 6, quota: 2},
			},
		},
		{
			name: "no quota of the claimant's beyond its own", victim: "them", units: []amount.Amount{1}, claim: 1,
			queues: []account{
				{name: "us", allocated: 4, share: 5, quota: 4}, {name: "them", allocated: 6, share: 6, quota: 2},
			},
		},
		{
			name: "a multiplier means nothing within the share", victim: "them", units: []amount.Amount{1}, claim: 1, multiplier: 10_000, want: true,
			queues: []account{claimant, {name: "them", allocated: 5, share: 4}},
		},
		{
			name: "parents 4/4 (+1) and 6/4 (−1): equal", victim: "b", units: []amount.Amount{1}, claim: 1,
			queues: []account{
				{name: "P1", allocated: 4, share: 4},
				{name: "P2", allocated: 6, share: 4},
				{name: "a", parent: "P1", share: 4},
				{name: "b", parent: "P2", allocated: 6, share: 4},
			},
		},
		{
			name: "parents 4/4 (+1) and 7/4 (−1): lower", victim: "b", units: []amount.Amount{1}, claim: 1, want: true,
			queues: []account{
				{name: "P1", allocated: 4, share: 4},
				{name: "P2", allocated: 7, share: 4},
				{name: "a", parent: "P1", share: 4},
				{name: "b", parent: "P2", allocated: 7, share: 4},
			},
		},
		{
			name: "the same, damped by 1.2", victim: "b", units: []amount.Amount{1}, claim: 1, multiplier: 1200,
			queues: []account{
				{name: "P1", allocated: 4, share: 4},
				{name: "P2", allocated: 7, share: 4},
				{name: "a", parent: "P1", share: 4},
				{name: "b", parent: "P2", allocated: 7, share: 4},
			},
		},
		{
			name: "above a share of nothing is infinitely above", victim: "b", units: []amount.Amount{1}, claim: 1,
			queues: []account{
				{name: "P1", share: 0},
				{name: "P2", allocated: 7, share: 4},
				{name: "a", parent: "P1", share: 4},
				{name: "b", parent: "P2", allocated: 7, share: 4},
			},
		},
		{
			name: "a claimant of unlimited share is never above it", victim: "b", units: []amount.Amount{1}, claim: 1, want: true,
			queues: []account{
				{name: "P1", allocated: 40, unlimitedShare: true},
				{name: "P2", allocated: 7, share: 4},
				{name: "a", parent: "P1", share: 4},
				{name: "b", parent: "P2", allocated: 7, share: 4},
			},
		},
		{
			name: "what the claimant's own branch loses is counted off", victim: "a2", units: []amount.Amount{1}, claim: 1, want: true,
			queues: []account{
				{name: "P1", allocated: 5, share: 4},
				{name: "P2", allocated: 3, share: 4},
				{name: "a1", parent: "P1", share: 2},
				{name: "a2", parent: "P1", allocated: 5, share: 2},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := accounts(c.queues...)
			leaf := "us"
			for _, q := range c.queues {
				if q.name == "a" || q.name == "a1" {
					leaf = q.name
				}
			}
			claim := Claim{Queue: at(t, tree, leaf), Need: gpus(c.claim), Preemptible: true}
			if got := take(t, tree, claim, c.multiplier, c.victim, c.units...); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestGate(t *testing.T) {
	for _, c := range []struct {
		name string
		leaf account
		need amount.Vector
		firm bool
		want bool
	}{
		{name: "up to the share", leaf: account{allocated: 3, share: 4}, need: gpus(1), want: true},
		{name: "at the share", leaf: account{allocated: 4, share: 4}, need: gpus(1)},
		{name: "over in CPU, which it does not ask for", leaf: account{share: 4, cpuAllocated: 2, cpuShare: 1}, need: gpus(1)},
		{name: "firm, within quota", leaf: account{allocated: 3, firm: 1, share: 8, quota: 2}, need: gpus(1), firm: true, want: true},
		{name: "firm, over quota", leaf: account{allocated: 2, firm: 2, share: 8, quota: 2}, need: gpus(1), firm: true},
		{name: "firm, in a resource without quotas", leaf: account{share: 8, quota: 2, cpuShare: 9}, need: amount.Vector{1000, 9, 0, 0}, firm: true, want: true},
		{name: "over its share of a model that it does not ask for", leaf: account{share: 4, modelHeld: 1}, need: gpus(1), want: true},
		{name: "over its share of the model that it asks for", leaf: account{share: 4, modelHeld: 1}, need: amount.Vector{1000, 0, 0, 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.leaf.name = "us"
			tree := accounts(c.leaf)
			if got := MayClaim(tree, Claim{Queue: 0, Need: c.need, Preemptible: !c.firm}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A firm claimant needs quota at every level, not only in its leaf.
func TestFirmClaimantNeedsQuotaAtEveryLevel(t *testing.T) {
	tree := accounts(
		account{name: "P1", share: 4, quota: 1, firm: 1, allocated: 1}, account{name: "P2", allocated: 7, share: 4},
		account{name: "a", parent: "P1", share: 4, quota: 4}, account{name: "b", parent: "P2", allocated: 7, share: 4},
	)
	claim := Claim{Queue: at(t, tree, "a"), Need: gpus(1)}
	if !MayClaim(tree, claim) {
		t.Fatal("the leaf's gate refuses")
	}
	if take(t, tree, claim, 1000, "b", 1) {
		t.Error("allowed although the parent's quota is full of non-preemptible work")
	}
	claim.Preemptible = true
	if !take(t, tree, claim, 1000, "b", 1) {
		t.Error("refused although preemptible work needs no quota")
	}
}

func TestLevelled(t *testing.T) {
	tree := accounts(
		account{name: "A"}, account{name: "B"},
		account{name: "A1", parent: "A"}, account{name: "A2", parent: "A"}, account{name: "B1", parent: "B"},
		account{name: "A11", parent: "A1"}, account{name: "A12", parent: "A1"},
	)
	for _, c := range []struct{ claimant, victim, ours, theirs string }{
		{"A11", "A12", "A11", "A12"},
		{"A11", "A2", "A1", "A2"},
		{"A2", "A12", "A2", "A1"},
		{"A11", "B1", "A", "B"},
		{"B1", "A2", "B", "A"},
	} {
		ours, theirs := Levelled(tree, at(t, tree, c.claimant), at(t, tree, c.victim))
		if tree.Queues[ours].Name != c.ours || tree.Queues[theirs].Name != c.theirs {
			t.Errorf("%s from %s: got %s and %s, want %s and %s", c.claimant, c.victim,
				tree.Queues[ours].Name, tree.Queues[theirs].Name, c.ours, c.theirs)
		}
	}
}

// A leaf that is a root can claim from a deep tree and the reverse.
func TestRootLeafAgainstDeepTree(t *testing.T) {
	tree := accounts(
		account{name: "flat", share: 4}, account{name: "P", allocated: 6, share: 4},
		account{name: "deep", parent: "P", allocated: 6, share: 4},
	)
	if !take(t, tree, Claim{Queue: at(t, tree, "flat"), Need: gpus(2), Preemptible: true}, 1000, "deep", 1, 1) {
		t.Error("a root leaf may not claim from a deep one that is over its share")
	}
}

// R10: of two queues that are both entitled to no CPU, neither empties the other.
func TestBorrowersDoNotDrainEachOther(t *testing.T) {
	for _, c := range []struct {
		name         string
		ours, theirs amount.Amount // CPU allocated
		share        amount.Amount // ours of CPU
		want         bool
	}{
		{"the sibling would be left with nothing", 1000, 500, 1000, false},
		{"the sibling keeps some", 1000, 501, 1000, true},
		{"within our share", 500, 500, 1000, true},
		{"of a share of nothing", 0, 500, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := accounts(
				account{name: "us", share: 8, cpuShare: c.share, cpuAllocated: c.ours},
				account{name: "them", share: 4, allocated: 4, cpuAllocated: c.theirs},
			)
			p := NewPermission(tree, Claim{Queue: 0, Need: amount.Vector{1000, 500, 0, 0}, Preemptible: true}, 1000)
			if _, ok := p.Take(1, amount.Vector{1000, 500, 0, 0}); !ok {
				t.Fatal("the sibling is over its share of CPU and gives nothing")
			}
			if got := p.SparesDrained(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// R11: who would be over quota does not push others who wait below theirs.
func TestQuotaOfThoseWhoWaitIsSpared(t *testing.T) {
	for _, c := range []struct {
		name    string
		quota   amount.Amount // of the claimant
		request amount.Amount // of the victim's queue, which holds 5 of its quota of 4
		unit    amount.Amount
		want    bool
	}{
		{"over quota, below theirs, others wait there", 0, 6, 4, false},
		{"nobody waits there", 0, 5, 4, true},
		{"the claimant stays within quota", 4, 6, 4, true},
		{"they keep their quota", 0, 6, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := accounts(
				account{name: "us", share: 4, quota: c.quota},
				account{name: "them", allocated: 5, share: 4, quota: 4, request: c.request},
			)
			p := NewPermission(tree, Claim{Queue: 0, Need: gpus(c.unit), Preemptible: true}, 1000)
			if _, ok := p.Take(1, gpus(c.unit)); !ok {
				t.Fatal("the sibling is over its share and gives nothing")
			}
			if got := p.SparesQuota(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// R12: whoever keeps to its share loses nothing beside one that does not.
func TestModestQueuesAreSpared(t *testing.T) {
	for _, c := range []struct {
		name           string
		modest, greedy amount.Amount // allocated, of a share of 4 each
		lost           amount.Amount // by greedy before
		victim         string
		want           bool
	}{
		{"beside a greedy sibling", 4, 7, 0, "modest", false},
		{"below its share", 3, 8, 0, "modest", false},
		{"greedy itself", 4, 7, 0, "greedy", true},
		{"greedy gave what was too much", 4, 7, 3, "modest", true},
		{"greedy gave too little", 4, 7, 2, "modest", false},
		{"both over their shares", 5, 6, 0, "modest", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := accounts(
				account{name: "us", share: 8, quota: 8},
				account{name: "them", allocated: c.modest + c.greedy, share: 8},
				account{name: "modest", parent: "them", allocated: c.modest, share: 4},
				account{name: "greedy", parent: "them", allocated: c.greedy, share: 4},
			)
			p := NewPermission(tree, Claim{Queue: 0, Need: gpus(3), Preemptible: true}, 1000)
			if c.lost > 0 {
				if _, ok := p.Take(at(t, tree, "greedy"), gpus(c.lost)); !ok {
					t.Fatal("greedy is over its share and gives nothing")
				}
			}
			if got := p.SparesModest(at(t, tree, c.victim), gpus(1)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestStrategyIsNamed(t *testing.T) {
	tree := accounts(account{name: "us", share: 4, quota: 4}, account{name: "over", allocated: 6, share: 4}, account{name: "quota", allocated: 6, share: 6, quota: 2})
	p := NewPermission(tree, Claim{Queue: 0, Need: gpus(2), Preemptible: true}, 1000)
	for name, want := range map[string]Strategy{"over": FairShare, "quota": Quota, "us": NoStrategy} {
		if got, ok := p.Take(at(t, tree, name), gpus(1)); got != want || ok != (want != NoStrategy) {
			t.Errorf("%s: got %d, %v, want %d", name, got, ok, want)
		}
	}
}

func TestMinimumRuntimes(t *testing.T) {
	const unset, zero = 0, -1
	tree := accounts(
		account{name: "A", preemptRun: 10, reclaimRun: 100},
		account{name: "B", reclaimRun: unset},
		account{name: "A1", parent: "A", reclaimRun: 300}, account{name: "A2", parent: "A", preemptRun: zero},
		account{name: "B1", parent: "B", reclaimRun: 900},
		account{name: "A11", parent: "A1"}, account{name: "A12", parent: "A1", preemptRun: 5, reclaimRun: 700},
	)
	const fallback = 42
	for _, c := range []struct {
		claimant, victim              string
		preempt, byQueue, by3Ancestor int64
	}{
		{claimant: "A11", victim: "A12", preempt: 5, byQueue: 700, by3Ancestor: 700},
		{claimant: "A12", victim: "A11", preempt: 10, byQueue: 300, by3Ancestor: 300},
		{claimant: "A2", victim: "A12", preempt: 5, byQueue: 700, by3Ancestor: 300},
		{claimant: "A12", victim: "A2", preempt: 0, byQueue: 100, by3Ancestor: 100},
		{claimant: "B1", victim: "A12", preempt: 5, byQueue: 700, by3Ancestor: 100},
		{claimant: "A12", victim: "B1", preempt: fallback, byQueue: 900, by3Ancestor: fallback},
	} {
		claimant, victim := at(t, tree, c.claimant), at(t, tree, c.victim)
		if got := PreemptMinRuntime(tree, victim, fallback); got != c.preempt {
			t.Errorf("M1 %s: got %d, want %d", c.victim, got, c.preempt)
		}
		if got := ReclaimMinRuntimeByQueue(tree, victim, fallback); got != c.byQueue {
			t.Errorf("M2 %s: got %d, want %d", c.victim, got, c.byQueue)
		}
		if got := ReclaimMinRuntimeByAncestor(tree, claimant, victim, fallback); got != c.by3Ancestor {
			t.Errorf("M3 %s from %s: got %d, want %d", c.claimant, c.victim, got, c.by3Ancestor)
		}
	}
}

func TestProtected(t *testing.T) {
	for _, c := range []struct {
		started, minimum, now int64
		want                  bool
	}{
		{100, 50, 149, true},
		{100, 50, 150, false},
		{0, 50, 10, false},
		{100, 0, 100, false},
		{1 << 62, 1<<63 - 1, 1<<62 + 1, true},
	} {
		if got := Protected(c.started, c.minimum, c.now); got != c.want {
			t.Errorf("started %d, minimum %d, now %d: got %v", c.started, c.minimum, c.now, got)
		}
	}
}

// divide sets the shares of a flat or deep tree over total GPUs.
func divide(tree *model.QueueTree, total amount.Amount) *model.QueueTree {
	tree.Total[0] = total * 1000
	fairshare.Divide(tree, 1000)
	return tree
}
