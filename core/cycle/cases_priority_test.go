// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"testing"
)

// R38: the lowest priority pays, and one eviction is all.
func TestR38LowestPriorityPays(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 3)
	w.queue("q")
	w.submit(job{name: "M", queue: "q", gpus: 1, priority: 50, node: "n1", age: 10})
	w.submit(job{name: "L1", queue: "q", gpus: 1, priority: 10, node: "n1", age: 9})
	w.submit(job{name: "L2", queue: "q", gpus: 1, priority: 10, node: "n1", age: 8})
	w.submit(job{name: "H", queue: "q", gpus: 1, priority: 100})
	w.settle()
	w.wantEvicted("MUST: the younger L is evicted, M untouched", map[string]int{"L2": 1})
	w.wantRunning("H runs", map[string]int{"H": 1, "M": 1, "L1": 1})
}

// R38, second: also where the middle one's node comes first.
func TestR38LowOnAnotherNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.node("n2", 1)
	w.queue("q")
	w.submit(job{name: "M", queue: "q", gpus: 1, priority: 50, node: "n1", age: 9})
	w.submit(job{name: "L", queue: "q", gpus: 1, priority: 10, node: "n2", age: 10})
	w.submit(job{name: "H", queue: "q", gpus: 1, priority: 100})
	w.settle()
	w.wantEvicted("MUST: L on n2 is evicted, M untouched", map[string]int{"L": 1})
	if w.running("H", "n2") != 1 {
		t.Error("MUST: H runs on n2")
	}
}

// R40: a queue at its limit preempts inside itself, though the cluster has room.
func TestR40QueueAtItsLimit(t *testing.T) {
	for _, c := range []struct {
		gpus, evictions int
	}{{2, 1}, {1, 0}} {
		t.Run(fmt.Sprint("H asks for ", c.gpus), func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			w.queue("q", limit(3))
			w.queue("other")
			w.submit(job{name: "L", queue: "q", gpus: 2, node: "n1", age: 9})
			w.submit(job{name: "O", queue: "other", gpus: 2, node: "n1", age: 9})
			w.submit(job{name: "H", queue: "q", gpus: c.gpus, priority: 100})
			w.settle()
			w.wantRunning("H runs", map[string]int{"H": 1, "L": 1 - c.evictions, "O": 1})
			if got := w.evicted["L"]; got != c.evictions || len(w.evicted) > c.evictions {
				t.Errorf("MUST: %d evictions; got %v", c.evictions, w.evicted)
			}
		})
	}
}

// Every number of victims can make room under a limit.
func TestQueueAtItsLimitTakesAnyNumber(t *testing.T) {
	for n := 1; n <= 9; n++ {
		t.Run(fmt.Sprint(n, " victims"), func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 18)
			w.queue("q", limit(n))
			for i := range n {
				w.submit(job{name: fmt.Sprint("L", i), queue: "q", gpus: 1, node: "n1", age: 9})
			}
			w.submit(job{name: "H", queue: "q", gpus: n, priority: 100})
			w.settle()
			w.wantRunning("H runs", map[string]int{"H": 1})
		})
	}
}

// Under a limit, victims also have to go from nodes where the claimant finds no room.
func TestQueueAtItsLimitTakesFromOtherNodes(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.node("n2", 2)
	w.queue("q", limit(4))
	w.queue("other")
	w.submit(job{name: "O", queue: "other", gpus: 1, node: "n1", age: 9})
	w.submit(job{name: "L1", queue: "q", gpus: 2, node: "n1", age: 9})
	w.submit(job{name: "L2", queue: "q", gpus: 2, node: "n2", age: 8})
	w.submit(job{name: "H", queue: "q", gpus: 3, priority: 100})
	w.settle()
	w.wantRunning("H runs", map[string]int{"H": 1, "O": 1})
	w.wantEvicted("both L are evicted", map[string]int{"L1": 1, "L2": 1})
}

// R41: a thousand jobs that wait for node 1 do not keep one off node 2.
func TestR41OthersBacklog(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1, label("pool", "a"))
	w.node("n2", 1, label("pool", "b"))
	w.queue("low", weight(1))
	w.queue("high", weight(100))
	for i := range 1000 {
		w.submit(job{name: fmt.Sprintf("L%03d", i), queue: "low", gpus: 1, nodeLabel: map[string]string{"pool": "a"}, age: int64(2000 - i)})
	}
	w.submit(job{name: "H", queue: "high", gpus: 1, nodeLabel: map[string]string{"pool": "b"}})
	w.cycle()
	w.wantRunning("high runs in its first cycle", map[string]int{"H": 1})
}
