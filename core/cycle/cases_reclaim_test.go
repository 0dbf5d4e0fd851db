// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"testing"

	"github.com/fairslice/fairslice/core/model"
)

// R28: a borrower does not evict a smaller one to borrow more, for ever.
func TestR28BorrowerWaits(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 6)
	w.queue("ga", quota(3))
	w.queue("gb", quota(3))
	w.queue("be")
	w.submit(job{name: "GA1", queue: "ga", gpus: 5, node: "n1", age: 9})
	w.submit(job{name: "BE1", queue: "be", gpus: 1, node: "n1", age: 9, recreated: true})
	w.submit(job{name: "GA2", queue: "ga", gpus: 1, age: 5})
	for range 100 {
		w.cycle()
	}
	w.wantEvicted("MUST: 0 evictions", map[string]int{})
	w.wantRunning("GA2 waits and BE1 keeps running", map[string]int{"GA1": 1, "BE1": 1, "GA2": 0})
}

// R28, second: a node that takes no pods counts in nobody's share.
func TestR28DeadNodeCountsForNobody(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 0, cpu(8000))
	w.node("n2", 0, cpu(8000))
	w.node("n3", 0, cpu(8000), func(n *model.Node) { n.Unschedulable = true })
	byCPU := func(q *model.Queue) {
		q.Quota, q.OverQuotaWeight = model.Quantities{"cpu": 0}, model.Quantities{"cpu": 1}
	}
	w.queue("q1", byCPU)
	w.queue("q2", byCPU)
	w.submit(job{name: "job1", queue: "q1", cpu: 6000, age: 5, recreated: true})
	w.submit(job{name: "job2", queue: "q2", cpu: 6000, age: 4, recreated: true})
	for range 100 {
		w.cycle()
	}
	w.wantRunning("each node runs one job", map[string]int{"job1": 1, "job2": 1})
	w.wantEvicted("MUST: 0 evictions", map[string]int{})
}

// The small pod of a gang does not stay on the only node that the large one can use,
// though the first victim is there.
func TestGangOfDifferentPods(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 1)
	w.queue("q", quota(5))
	w.queue("v")
	w.submit(job{name: "old", queue: "v", gpus: 1, node: "n2", age: 20})
	for i := range 4 {
		w.submit(job{name: fmt.Sprint("v", i), queue: "v", gpus: 1, node: "n1", age: 9})
	}
	w.submit(job{name: "G", queue: "q", gpus: 1, pods: 2, gang: 2})
	w.change("G-001", func(p *model.Pod) { p.Claims[0].Count = 4 })
	w.settle()
	w.wantRunning("both run", map[string]int{"G": 2, "old": 0})
}

// stealing is R29: two victims of which one leaves at once and one after a
// minute.
func stealing(t *testing.T) *world {
	w := newWorld(t)
	w.node("n1", 6)
	w.queue("q1", quota(4))
	w.queue("q2", quota(2))
	w.grace["WA"], w.grace["WB"] = second, 60*second
	w.submit(job{name: "WA", queue: "q2", gpus: 3, node: "n1", age: 20, recreated: true})
	w.submit(job{name: "WB", queue: "q2", gpus: 3, node: "n1", age: 30, recreated: true})
	w.submit(job{name: "P", queue: "q1", gpus: 4, age: 5})
	return w
}

// R29: freed room is held for the one that caused the eviction.
func TestR29FreedRoomIsHeld(t *testing.T) {
	w := stealing(t)
	for s := range 59 {
		w.cycle()
		if s >= 1 && w.running("WA") != 0 {
			t.Fatalf("NEVER: WA is admitted again in second %d", s+1)
		}
	}
	for range 20 {
		w.cycle()
	}
	w.wantEvicted("MUST: WA and WB are evicted once each", map[string]int{"WA": 1, "WB": 1})
	w.wantRunning("P runs when both are gone", map[string]int{"P": 1, "WA": 0, "WB": 0})
	for range 520 {
		w.cycle()
	}
	w.wantEvicted("MUST: nothing more in ten minutes", map[string]int{"WA": 1, "WB": 1})
}

// R29, second run: the hold goes with its owner.
func TestR29HoldGoesWithItsOwner(t *testing.T) {
	w := stealing(t)
	for range 30 {
		w.cycle()
	}
	w.finish("P")
	w.cycle()
	w.wantRunning("the hold is released at once and WA runs again", map[string]int{"WA": 1})
}

// R31: no more victims than the job needs, though the queue stays over quota.
func TestR31NoMoreVictimsThanNeeded(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.queue("q", quota(4))
	for i := range 8 {
		w.submit(job{name: fmt.Sprint("L", i), queue: "q", gpus: 1, node: "n1", age: int64(100 - i)})
	}
	w.submit(job{name: "H", queue: "q", gpus: 4, priority: 100})
	w.settle()
	w.wantEvicted("MUST: exactly 4 L are evicted, the youngest", map[string]int{"L4": 1, "L5": 1, "L6": 1, "L7": 1})
	w.wantRunning("H runs", map[string]int{"H": 1})
}

// R32: one big victim is enough for two claimants.
func TestR32OneVictimForTwo(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 12)
	w.queue("b", quota(4))
	w.queue("c1", quota(4))
	w.queue("c2", quota(4))
	w.submit(job{name: "B4", queue: "b", gpus: 4, node: "n1", age: 30})
	w.submit(job{name: "B8", queue: "b", gpus: 8, node: "n1", age: 20})
	w.submit(job{name: "C1", queue: "c1", gpus: 4, age: 5})
	w.submit(job{name: "C2", queue: "c2", gpus: 4, age: 4})
	w.settle()
	w.wantEvicted("MUST: only B8 is evicted", map[string]int{"B8": 1})
	w.wantRunning("C1, C2 and B4 run", map[string]int{"C1": 1, "C2": 1, "B4": 1})
}

// R34 (i): a full cluster does not keep a queue from its quota.
func TestR34FullCluster(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 5)
	w.queue("ta", quota(4), limit(5))
	w.queue("tb", quota(1), limit(5))
	for i := range 5 {
		w.submit(job{name: fmt.Sprint("T", i), queue: "ta", gpus: 1, node: "n1", age: int64(100 - i)})
	}
	w.submit(job{name: "B", queue: "tb", gpus: 1})
	w.settle()
	w.wantEvicted("MUST: exactly one ta pod is evicted", map[string]int{"T4": 1})
	w.wantRunning("B runs", map[string]int{"B": 1})
}

// R34 (ii): one gang of eight makes room for one gang of eight.
func TestR34OneGangForOne(t *testing.T) {
	w := newWorld(t)
	for i := range 4 {
		w.node(fmt.Sprint("n", i), 8)
	}
	w.queue("A", quota(16), limit(32))
	w.queue("a1", parent("A"), quota(8), limit(16))
	w.queue("a2", parent("A"), quota(8), limit(16))
	w.queue("B", quota(16))
	for i := range 4 {
		w.submit(job{
			name: fmt.Sprint("G", i), queue: fmt.Sprint("a", 1+i/2), pods: 8, gang: 8, gpus: 1,
			node: fmt.Sprint("n", i), age: int64(100 - i),
		})
	}
	w.submit(job{name: "GB", queue: "B", pods: 8, gang: 8, gpus: 1})
	w.settle()
	w.wantRunning("B's gang runs", map[string]int{"GB": 8})
	if len(w.evicted) != 1 {
		t.Errorf("NEVER: parts of two gangs; evicted %v", w.evicted)
	}
	for gang, pods := range w.evicted {
		if pods != 8 {
			t.Errorf("MUST: exactly one gang of 8; %s lost %d", gang, pods)
		}
	}
}

// proof is R35: on n1 eviction does not help, on n2 it does.
func proof(t *testing.T, claimant job, set ...func(*model.Queue)) *world {
	w := newWorld(t)
	w.node("n1", 4, label("zone", "a"))
	w.node("n2", 4, label("zone", "b"))
	w.queue("over")
	w.queue("protected", quota(2))
	w.queue("p", append([]func(*model.Queue){quota(4)}, set...)...)
	for i := 1; i <= 2; i++ {
		w.submit(job{name: fmt.Sprint("VA", i), queue: "over", gpus: 1, node: "n1", age: 10})
		w.submit(job{name: fmt.Sprint("K", i), queue: "protected", gpus: 1, node: "n1", age: 10})
	}
	for i := 1; i <= 4; i++ {
		w.submit(job{name: fmt.Sprint("VB", i), queue: "over", gpus: 1, node: "n2", age: 20})
	}
	claimant.queue, claimant.gpus = "p", 4
	w.submit(claimant)
	w.settle()
	return w
}

func TestR35OnlyVictimsThatHelp(t *testing.T) {
	w := proof(t, job{name: "P"})
	w.wantEvicted("MUST: exactly VB1..4 are evicted", map[string]int{"VB1": 1, "VB2": 1, "VB3": 1, "VB4": 1})
	if w.running("P", "n2") != 1 {
		t.Error("MUST: P runs on n2")
	}
}

func TestR35NoEvictionWithoutAPlace(t *testing.T) {
	w := proof(t, job{name: "P", nodeLabel: map[string]string{"zone": "a"}})
	w.wantEvicted("MUST: no eviction where P must be in zone a", map[string]int{})
	w.wantReason("P", "NoNodeFits")
}

func TestR35NoEvictionOverALimit(t *testing.T) {
	w := proof(t, job{name: "P"}, limit(3), quota(3))
	w.wantEvicted("MUST: no eviction where P's queue is limited to 3", map[string]int{})
	w.wantReason("P", "OverLimit", "queue p", "3 GPUs")
}

// R37: disruption budgets are a hard rule.
func TestR37Budgets(t *testing.T) {
	for _, withE := range []bool{true, false} {
		t.Run(fmt.Sprint("with E: ", withE), func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 3)
			w.node("n2", 1)
			w.queue("over")
			w.queue("p", quota(2))
			w.submit(job{name: "D", queue: "over", pods: 3, gpus: 1, node: "n1", age: 20, recreated: true})
			budget := func(allowed int) {
				b := model.DisruptionBudget{Key: "ns/d", Allowed: allowed}
				for uid, p := range w.pods {
					if p.Workload == "ns/D" {
						b.Pods = append(b.Pods, uid)
					}
				}
				w.c.SetBudgets([]model.DisruptionBudget{b})
			}
			budget(1)
			if withE {
				w.submit(job{name: "E", queue: "over", gpus: 1, node: "n2", age: 10})
			} else {
				w.submit(job{name: "fill", queue: "p", gpus: 1, node: "n2", age: 10, firm: true})
			}
			w.submit(job{name: "P1", queue: "p", gpus: 1, age: 5})
			if withE {
				w.submit(job{name: "P2", queue: "p", gpus: 1, age: 4})
			}
			w.cycle()
			if n := w.evicted["D"]; n > 1 {
				t.Fatalf("NEVER: two D gone at once; %d are", n)
			}
			budget(0)
			w.settle()
			if withE {
				w.wantEvicted("MUST: E and one D are evicted, then no more", map[string]int{"D": 1, "E": 1})
				w.wantRunning("P1 and P2 run", map[string]int{"P1": 1, "P2": 1})
			} else {
				w.wantEvicted("MUST: one D is evicted and no more while the budget forbids", map[string]int{"D": 1})
				w.wantRunning("P1 runs", map[string]int{"P1": 1})
			}
		})
	}
}

// R37, second: what a budget forbids is not evicted, and the reason says so.
func TestR37BudgetForbids(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 3)
	w.queue("over")
	w.queue("p", quota(2))
	w.submit(job{name: "D", queue: "over", pods: 3, gpus: 1, node: "n1", age: 20})
	w.c.SetBudgets([]model.DisruptionBudget{{Key: "ns/d", Pods: []string{"D-000", "D-001", "D-002"}}})
	w.submit(job{name: "P2", queue: "p", gpus: 1, age: 5})
	w.settle()
	w.wantEvicted("NEVER: an eviction that the budget forbids", map[string]int{})
	w.wantReason("P2", "BudgetForbids", "ns/d")
	w.c.SetBudgets([]model.DisruptionBudget{{Key: "ns/d", Pods: []string{"D-000", "D-001", "D-002"}, Allowed: 1}})
	w.settle()
	w.wantEvicted("MUST: the next D goes when the budget allows it", map[string]int{"D": 1})
}
