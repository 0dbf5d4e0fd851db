// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairslice/fairslice/test/stack"
)

// TestGangOf64TakesVictimsOfThreeQueues: room for the whole gang is planned at
// once, all its victims leave at once and no more than it needs, and it starts
// when the last of them is gone.
func TestGangOf64TakesVictimsOfThreeQueues(t *testing.T) {
	var nodes []stack.GPUNode
	for i := range 9 {
		nodes = append(nodes, stack.A100(fmt.Sprintf("n%d", i), 8))
	}
	f := use(t, nodes...)
	const grace = 10 * time.Second
	f.queue("large", map[string]any{"quota": gpus(64)})
	for _, q := range []string{"va", "vb", "vc"} {
		f.queue(q, map[string]any{})
		f.replicas(q, 24, stack.Queue(q), stack.Whole(1), goneAfter(grace))
	}
	f.eventuallyRun(60*time.Second, map[string]int{"va-": 24, "vb-": 24, "vc-": 24})
	seen := f.evictions()

	f.gang("big", "large", 64)
	f.create(members("big", "large", 64)...)
	f.eventually(30*time.Second, f.wholeGangPromised)
	f.eventuallyRun(60*time.Second, map[string]int{"big-": 64, "v": 8})
	f.cycles(10)

	evicted := map[string]int{}
	for _, e := range seen.all() {
		evicted[e.set]++
	}
	if len(seen.all()) != 64 {
		t.Errorf("evicted %v, want 64 pods in all", evicted)
	} else {
		seen.withinOneCycle(grace) // the last is asked before the first is gone
	}
	log, err := f.Logs(stack.ControlPlane)
	f.must(err)
	if !strings.Contains(log, "evictions=64") {
		t.Error("no cycle planned all 64 evictions")
	}
	for _, q := range []string{"va", "vb", "vc"} {
		if n := evicted[q]; n != 21 && n != 22 {
			t.Errorf("queue %s lost %d of 24 pods, want the same of each queue, 21 or 22", q, n)
		}
	}
	if n := seen.bound(); n != 72+64 {
		t.Errorf("%d pods were bound, want 72 that ran before and the gang's 64", n)
	}
	f.consistent()
}

// wholeGangPromised looks into the ledger while the gang's victims leave: until
// all members have their place, none has.
func (f fixture) wholeGangPromised() (missing string) {
	promised := 0
	for _, p := range f.dump().Pods {
		if strings.HasPrefix(p.Name, "big-") && p.State == "promised" {
			promised++
		}
	}
	if promised != 0 && promised != 64 {
		f.t.Errorf("%d of the gang's 64 members have a place", promised)
	}
	if promised != 64 {
		return fmt.Sprintf("%d of 64 members have a place; %s", promised, f.firstReason("big-"))
	}
	if n := f.boundCount("big-"); n != 0 {
		return fmt.Sprintf("%d members are bound before the victims are gone", n)
	}
	return ""
}
