// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"testing"

	"github.com/fairslice/fairslice/core/model"
)

// R01: an enormous request neither wraps nor passes, and hurts nobody else.
func TestR01EnormousRequest(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.queue("q", quota(4), limit(4))
	const huge = 9223372036854775807
	spec := model.Workload{Key: "ns/W1", Queue: "q", Preemptible: true, MinMember: 1, CreatedAt: 1}
	w.must(w.c.SetWorkload(spec))
	err := w.c.SetPod(model.Pod{
		UID: "W1", Name: "W1", Workload: "ns/W1", State: model.Pending, CreatedAt: 1,
		Claims: []model.GPUClaim{{Name: "a", Count: huge}, {Name: "b", Count: huge}},
	})
	if err != nil {
		t.Logf("refused at once: %v", err)
	} else {
		w.pods["W1"] = &model.Pod{UID: "W1", Workload: "ns/W1"}
	}
	w.submit(job{name: "W2", queue: "q", gpus: 4})
	w.settle()
	w.wantRunning("W2 runs", map[string]int{"W2": 1})
	if got := w.used("q"); got != 4000 {
		t.Errorf("NEVER: used is anything but what W2 holds; it is %d", got)
	}
	if err == nil {
		w.wantReason("W1", "GPU")
	}
}

// R10: whatever comes and goes leaves the queue's account at exactly 0; ten
// tenths fill a GPU, an eleventh waits.
func TestR10TenthsComeAndGo(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.queue("q", quota(1))
	for i := range 11 {
		w.submit(job{name: fmt.Sprint("T", i), queue: "q", milli: 100, age: int64(100 - i)})
	}
	w.settle()
	for i := range 10 {
		w.wantRunning("ten of 0.1 fill one GPU", map[string]int{fmt.Sprint("T", i): 1})
	}
	w.wantRunning("an eleventh of 0.1 does not fit", map[string]int{"T10": 0})
	if got := w.used("q"); got != 1000 {
		t.Errorf("MUST: ten of 0.1 use exactly one GPU; used is %d", got)
	}
	w.finish("T10")
	for _, i := range []int{3, 9, 0, 7, 1, 8, 2, 6, 4, 5} {
		w.finish(fmt.Sprint("T", i))
	}
	if got := w.used("q"); got != 0 {
		t.Errorf("MUST: the account reads exactly 0; it reads %d", got)
	}
}

// R10: parts of a GPU expressed in MiB and in hundredths come back exactly too.
func TestR10SeventhsAndThirds(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	w.queue("q", quota(2))
	for i := range 7 {
		w.submit(job{name: fmt.Sprint("M", i), queue: "q", memMiB: 16384 / 7})
	}
	for i := range 3 {
		w.submit(job{name: fmt.Sprint("S", i), queue: "q", milli: 330})
	}
	w.settle()
	for i := range 7 {
		w.wantRunning("seven sevenths fit", map[string]int{fmt.Sprint("M", i): 1})
		w.finish(fmt.Sprint("M", i))
	}
	for i := range 3 {
		w.wantRunning("three of 0.33 fit", map[string]int{fmt.Sprint("S", i): 1})
		w.finish(fmt.Sprint("S", i))
	}
	if got := w.used("q"); got != 0 {
		t.Errorf("NEVER: a residue is left; used is %d", got)
	}
}

// R11: no tolerance: 4 thousandths of a core too few are too few.
func TestR11NoSlack(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1, cpu(996))
	w.queue("q", quota(2))
	w.submit(job{name: "P1", queue: "q", gpus: 1, cpu: 1000})
	w.settle()
	w.wantRunning("P1 waits with only n1", map[string]int{"P1": 0})
	w.wantReason("P1", "CPU")
	w.node("n2", 1, cpu(1000))
	w.settle()
	if w.running("P1", "n2") != 1 {
		t.Error("MUST: P1 runs on n2")
	}
}

// R11, its twins on one GPU: 0.996 free for 1.0, and 10 MiB too little.
func TestR11NoSlackOnAGPU(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.node("n2", 1)
	w.queue("q", quota(4))
	w.submit(job{name: "tiny", queue: "q", milli: 4, node: "n1"})
	w.submit(job{name: "most", queue: "q", memMiB: 9, node: "n2"})
	w.submit(job{name: "whole", queue: "q", gpus: 1, nodeLabel: map[string]string{"name": "n1"}})
	w.submit(job{name: "memory", queue: "q", memMiB: 16385 - 9, nodeLabel: map[string]string{"name": "n2"}})
	w.settle()
	w.wantRunning("nothing that is a little too large", map[string]int{"whole": 0, "memory": 0})
	w.wantEvicted("NEVER: an eviction inside one priority", map[string]int{})
}

// R13: a parent's limit holds for the sum of its children, in one cycle.
func TestR13ParentLimit(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.queue("root")
	w.queue("T", parent("root"), limit(2))
	w.queue("s0", parent("T"))
	w.queue("s1", parent("T"))
	w.submit(job{name: "J1", queue: "s0", gpus: 2, age: 2})
	w.submit(job{name: "J2", queue: "s1", gpus: 2, age: 1})
	w.settle()
	w.wantRunning("J1 runs and J2 waits", map[string]int{"J1": 1, "J2": 0})
	w.wantReason("J2", "OverLimit", "queue T", "2 GPUs")
	w.finish("J1")
	w.settle()
	w.wantRunning("J2 runs after J1 ended", map[string]int{"J2": 1})
}

// R14: pods that are started again after success count again.
func TestR14RestartedPodsCount(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 6)
	w.queue("q", quota(6), limit(6))
	w.submit(job{name: "J", queue: "q", pods: 3, gang: 3, gpus: 2, age: 9, node: "n1"})
	w.submit(job{name: "K", queue: "q", pods: 2, gpus: 2})
	for _, uid := range []string{"J-000", "J-001"} {
		w.change(uid, func(p *model.Pod) { p.State = model.Succeeded })
	}
	if got := w.used("q"); got != 2000 {
		t.Errorf("MUST: two finished pods give their share back; used is %d", got)
	}
	w.settle()
	w.wantRunning("K runs", map[string]int{"K": 2})
	if got := w.used("q"); got != 6000 {
		t.Errorf("MUST: used is the sum over live pods; it is %d", got)
	}
	w.finish("K")
	for _, uid := range []string{"J-000", "J-001", "J-002"} {
		w.remove(uid)
	}
	for range 3 {
		w.recreate("ns/J")
	}
	w.submit(job{name: "K2", queue: "q", gpus: 2})
	w.settle()
	if got := w.used("q"); got != 6000 {
		t.Errorf("MUST: used is 6 after the restart; it is %d", got)
	}
	w.wantRunning("all of J counts, K2 is not admitted on top", map[string]int{"J": 3, "K2": 0})
}

// R16: evicted and replaced pods leave nothing behind.
func TestR16NothingIsLeftOfReplacedPods(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.queue("q", quota(4))
	w.submit(job{name: "D", queue: "q", pods: 2, gpus: 1})
	w.settle()
	for round := range 50 {
		for uid, p := range w.pods {
			if p.Workload == "ns/D" {
				w.remove(uid)
				w.recreate("ns/D")
				break
			}
		}
		w.cycle()
		if got := w.used("q"); got > 2000 {
			t.Fatalf("MUST: used is at most 2 in every round; it is %d in round %d", got, round)
		}
	}
	w.submit(job{name: "K", queue: "q", gpus: 2})
	w.settle()
	w.wantRunning("K runs beside D", map[string]int{"D": 2, "K": 1})
}

// R16: a job whose owner is being deleted counts until its pods are gone.
func TestR16OrphanedPodsCountUntilGone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	w.queue("q", quota(2), limit(2))
	w.submit(job{name: "J", queue: "q", gpus: 2, age: 5, node: "n1"})
	w.change("J-000", func(p *model.Pod) { p.State = model.Releasing })
	w.leaves["J-000"] = w.now + 60*second
	w.submit(job{name: "K", queue: "q", gpus: 2})
	for range 50 {
		w.cycle()
		w.wantRunning("J's pod holds its place until it is gone", map[string]int{"K": 0})
	}
	for range 12 {
		w.cycle()
	}
	w.wantRunning("K runs when the pod is gone", map[string]int{"K": 1})
}

// R17: with the pods goes everything they held.
func TestR17NoPodsNoReservation(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.queue("q", quota(8))
	w.submit(job{name: "G", queue: "q", pods: 8, gang: 8, gpus: 1, age: 9, node: "n1"})
	w.submit(job{name: "H", queue: "q", gpus: 8})
	w.settle()
	w.wantRunning("H waits for G", map[string]int{"G": 8, "H": 0})
	for uid, p := range w.pods {
		if p.Workload == "ns/G" {
			w.remove(uid)
		}
	}
	if got := w.used("q"); got != 0 {
		t.Errorf("MUST: used is 0 without pods; it is %d", got)
	}
	w.settle()
	w.wantRunning("H starts", map[string]int{"H": 1})
}

// R19: a node that disappears before its pods do costs nobody anything.
func TestR19NodeDisappears(t *testing.T) {
	for _, flaps := range []bool{false, true} {
		t.Run(fmt.Sprint("comes back: ", flaps), func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 4)
			w.node("n2", 4)
			w.queue("qa", quota(4))
			w.queue("qb", quota(4))
			w.submit(job{name: "A", queue: "qa", pods: 4, gpus: 1, node: "n1", age: 9})
			w.submit(job{name: "B", queue: "qb", pods: 4, gpus: 1, node: "n2", age: 9})
			w.c.RemoveNode("n2")
			for s := range 60 {
				if flaps && s == 20 {
					w.node("n2", 4)
				}
				if !flaps && s == 30 {
					for uid, p := range w.pods {
						if p.Workload == "ns/B" {
							w.remove(uid)
							w.recreate("ns/B")
						}
					}
				}
				w.cycle()
			}
			w.wantEvicted("NEVER: a pod is evicted because of the transient", map[string]int{})
			w.wantRunning("qa is left alone", map[string]int{"A": 4})
			if flaps {
				w.wantRunning("state as before", map[string]int{"B": 4})
				return
			}
			w.wantRunning("qb's pods wait", map[string]int{"B": 0})
			if got := w.used("qb"); got != 0 {
				t.Errorf("MUST: qb uses 0; it uses %d", got)
			}
		})
	}
}

// R20: free room is that of a node, not the sum.
func TestR20SummedRoomAdmitsNothing(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	w.node("n2", 2)
	w.queue("q", quota(4), limit(4))
	w.submit(job{name: "U1", queue: "q", gpus: 1, node: "n1", age: 9})
	w.submit(job{name: "U2", queue: "q", gpus: 1, node: "n2", age: 9})
	w.submit(job{name: "J", queue: "q", gpus: 2, age: 5})
	w.submit(job{name: "K", queue: "q", gpus: 1, age: 1})
	w.cycle()
	w.wantRunning("K runs at once and J waits", map[string]int{"J": 0, "K": 1})
	w.wantReason("J", "NoNodeFits", "2", "1")
	if got := w.used("q"); got != 3000 {
		t.Errorf("NEVER: J is charged as running; used is %d", got)
	}
	free := "U1"
	if w.running("K", "n1") == 1 {
		free = "U2"
	}
	w.finish(free)
	w.settle()
	w.wantRunning("J runs after a node is free", map[string]int{"J": 1})
}
