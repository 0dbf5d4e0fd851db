// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"testing"
)

// TestLargeClaimTakesTheSameOfEachQueue: what a search has taken counts as gone
// once, from its first victim to its last. Otherwise the queues that are drained
// too far have to take back from the one that was spared.
func TestLargeClaimTakesTheSameOfEachQueue(t *testing.T) {
	w := newWorld(t)
	for i := range 9 {
		w.node(fmt.Sprint("n", i), 8)
	}
	w.queue("large", quota(64))
	lenders := []string{"va", "vb", "vc"}
	for i, q := range lenders {
		w.queue(q)
		for j := range 24 {
			w.submit(job{name: fmt.Sprint(q, j), queue: q, gpus: 1, node: fmt.Sprint("n", 3*i+j/8), age: 100, recreated: true})
		}
	}
	w.submit(job{name: "big", queue: "large", pods: 64, gang: 64, gpus: 1, age: 1})
	w.settle()
	lost := map[string]int{}
	for i, q := range lenders {
		for j := range 24 {
			lost[q] += w.evicted[fmt.Sprint(q, j)]
		}
		if want := 21 + i/2; lost[q] != want {
			t.Errorf("queue %s lost %d of 24, want %d: the shares of what is left are 3, 3 and 2", q, lost[q], want)
		}
	}
	w.wantRunning("the gang runs whole", map[string]int{"big": 64})
}
