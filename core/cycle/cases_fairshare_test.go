// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"testing"
)

// R22: a queue of weight 0 goes last and stays there.
func TestR22WeightZeroGoesLast(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	w.queue("a", weight(1))
	w.queue("z", weight(0))
	w.submit(job{name: "A1", queue: "a", gpus: 1, node: "n1", age: 9})
	w.submit(job{name: "Z1", queue: "z", gpus: 1, age: 5})
	w.submit(job{name: "A2", queue: "a", gpus: 1, age: 1})
	w.cycle()
	w.wantRunning("A2 takes the free GPU", map[string]int{"A1": 1, "A2": 1, "Z1": 0})
	w.settle()
	w.finish("A1")
	w.settle()
	w.wantRunning("Z1 runs once nobody with a weight wants the GPU", map[string]int{"A2": 1, "Z1": 1})
	w.wantEvicted("NEVER: an eviction", map[string]int{})
}

// R22: with all weights 0 the tie-break is stable: the older job.
func TestR22AllWeightsZero(t *testing.T) {
	for range 5 {
		w := newWorld(t)
		w.node("n1", 1)
		w.queue("y", weight(0))
		w.queue("z", weight(0))
		w.submit(job{name: "Z", queue: "z", gpus: 1, age: 5})
		w.submit(job{name: "Y", queue: "y", gpus: 1, age: 5})
		w.settle()
		w.wantRunning("the lower queue name wins between equals", map[string]int{"Y": 1, "Z": 0})
	}
}

// R23: of 4000 GPUs one is free; the borrower of one goes before that of two.
func TestR23SmallBorrowersAreNotTied(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		w.node(fmt.Sprintf("n%03d", i), 80)
	}
	w.queue("a")
	w.queue("b")
	w.queue("rest", quota(3996))
	for i := range 49 {
		w.submit(job{name: fmt.Sprint("R", i), queue: "rest", gpus: 80, node: fmt.Sprintf("n%03d", i), age: 99})
	}
	w.submit(job{name: "R", queue: "rest", gpus: 76, node: "n049", age: 99})
	w.submit(job{name: "A0", queue: "a", gpus: 1, node: "n049", age: 9})
	w.submit(job{name: "B0", queue: "b", pods: 2, gpus: 1, node: "n049", age: 9})
	w.submit(job{name: "B", queue: "b", gpus: 1, age: 5})
	w.submit(job{name: "A", queue: "a", gpus: 1, age: 1})
	w.cycle()
	w.wantRunning("A gets the free GPU, 1 < 2", map[string]int{"A": 1, "B": 0})
}

// R23: two weightless borrowers do not evict each other.
func TestR23WeightlessPairIsQuiet(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.queue("x", weight(0))
	w.queue("y", weight(0))
	w.submit(job{name: "X", queue: "x", gpus: 1, node: "n1", age: 9, recreated: true})
	w.submit(job{name: "Y", queue: "y", gpus: 1, age: 5, recreated: true})
	for range 100 {
		w.cycle()
	}
	if n := w.evicted["X"] + w.evicted["Y"]; n > 1 {
		t.Errorf("MUST: at most one eviction in 100 cycles; there were %d", n)
	}
}

// R25 (i): shares of 1.5 GPUs leave no GPU idle that a job could use.
func TestR25HalfShares(t *testing.T) {
	first := ""
	for range 5 {
		w := newWorld(t)
		w.node("n1", 3)
		w.queue("B")
		w.queue("C")
		w.submit(job{name: "JC", queue: "C", gpus: 2, age: 5})
		w.submit(job{name: "JB", queue: "B", gpus: 2, age: 5})
		w.settle()
		got := fmt.Sprint(w.running("JB"), w.running("JC"))
		if got != "1 0" && got != "0 1" || first != "" && got != first {
			t.Errorf("MUST: exactly one runs, the same in every replay; JB JC = %s, before %s", got, first)
		}
		first = got
	}
}

// R25 (ii): a share is no cap while there is room.
func TestR25ShareIsNoCap(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 10)
	w.queue("A", quota(5), limit(10))
	w.queue("B", quota(5), limit(10))
	w.submit(job{name: "A1", queue: "A", gpus: 6, node: "n1", age: 9})
	w.submit(job{name: "A2", queue: "A", gpus: 6, age: 5})
	w.submit(job{name: "B1", queue: "B", gpus: 6, age: 5})
	w.finish("A1")
	w.cycle()
	if n := w.running("A2") + w.running("B1"); n != 1 {
		t.Errorf("MUST: exactly one of A2 and B1 runs at once; %d do", n)
	}
}

// R25 (iii): queues without demand keep nothing idle.
func TestR25IdleQueues(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	for i, x := range []int{50, 50, 200, 150, 1, 150, 240, 160} {
		w.queue(fmt.Sprint("q", i), weight(x))
	}
	w.submit(job{name: "D3", queue: "q3", pods: 5, gpus: 1})
	w.submit(job{name: "D4", queue: "q4", pods: 8, gpus: 1})
	w.settle()
	if n := w.running("D3") + w.running("D4"); n != 8 {
		t.Errorf("MUST: all 8 GPUs are used; %d are", n)
	}
}

// R26: two victims come from two queues, whatever the queues are called.
func TestR26VictimsAreSpread(t *testing.T) {
	for _, names := range [][4]string{{"A", "B", "C", "D"}, {"D", "C", "B", "A"}} {
		w := newWorld(t)
		for i := range 9 {
			w.node(fmt.Sprint("n", i), 1)
		}
		for i, q := range names {
			w.queue(q)
			for k := range 3 {
				if i < 3 {
					w.submit(job{name: fmt.Sprint(q, "-", k), queue: q, gpus: 1, node: fmt.Sprint("n", 3*i+k), age: int64(50 - k)})
				}
			}
		}
		w.submit(job{name: "D1", queue: names[3], gpus: 1, age: 5})
		w.submit(job{name: "D2", queue: names[3], gpus: 1, age: 4})
		w.cycle()
		lost := map[string]int{}
		for _, e := range w.plan.Evictions {
			lost[w.pods[e.Pod].Workload[3:4]]++
		}
		if len(w.plan.Evictions) != 2 || len(lost) != 2 {
			t.Errorf("MUST: two evictions from two queues; got %v", lost)
		}
		w.settle()
		w.wantRunning("D has two", map[string]int{"D1": 1, "D2": 1})
		if len(w.evicted) != 2 {
			t.Errorf("NEVER: a third eviction; %v", w.evicted)
		}
	}
}
