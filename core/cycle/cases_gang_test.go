// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"testing"

	"github.com/fairslice/fairslice/core/model"
)

// R43: a gang larger than the cluster holds nothing and blocks nobody.
func TestR43GangLargerThanTheCluster(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	w.queue("q")
	w.submit(job{name: "G", queue: "q", pods: 10, gang: 10, gpus: 2, age: 10})
	w.submit(job{name: "S", queue: "q", gpus: 1})
	w.cycle()
	w.wantRunning("S runs in its first cycle, no pod of G is bound", map[string]int{"S": 1, "G": 0})
	w.wantReason("G", "GangDoesNotFit", "20 GPUs", "16")
	if got := w.used("q"); got != 1000 {
		t.Errorf("NEVER: G holds GPUs between cycles; the queue holds %d thousandths", got)
	}
	w.settle()
}

// R43, second: gangs of one to eight come and go; nothing that fits waits.
func TestR43StreamOfGangs(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.queue("q")
	ends := map[int][]string{}
	for i := range 60 {
		name := fmt.Sprintf("j%02d", i)
		w.submit(job{name: name, queue: "q", pods: 1 + i%8, gang: 1 + i%8, gpus: 1})
		for _, done := range ends[i] {
			w.finish(done)
		}
		w.cycle()
		w.noneWaitsThatFits()
		if w.running(name) > 0 {
			ends[i+2] = append(ends[i+2], name)
		}
	}
	for i := 60; i < 400; i++ {
		for j := range 60 {
			if name := fmt.Sprintf("j%02d", j); w.running(name) > 0 {
				w.finish(name)
			}
		}
		if !w.cycle() && len(w.plan.Waits) == 0 {
			return
		}
		w.noneWaitsThatFits()
	}
	t.Errorf("MUST: all 60 finish; %d still wait", len(w.plan.Waits))
}

// noneWaitsThatFits says that the smallest waiting gang is larger than what is
// free.
func (w *world) noneWaitsThatFits() {
	w.t.Helper()
	free := 8 - int(w.used("q"))/1000
	for _, x := range w.plan.Waits {
		if len(x.Pods) <= free {
			w.t.Errorf("MUST: %s of %d starts, %d GPUs are free", x.Workload, len(x.Pods), free)
		}
	}
}

// R44: two members and one free node: none or both.
func TestR44NoRoomForTheSecondMember(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.node("n2", 1)
	w.queue("q")
	w.submit(job{name: "S", queue: "q", gpus: 1, node: "n1"})
	w.submit(job{name: "G", queue: "q", pods: 2, gang: 2, gpus: 1})
	for range 50 {
		w.cycle()
		w.wantRunning("both wait until S ends", map[string]int{"G": 0, "S": 1})
	}
	w.finish("S")
	w.settle()
	w.wantRunning("then both run", map[string]int{"G": 2})
}

// R46: a gang that lost a member comes before an equal newcomer.
func TestR46BrokenGangBeforeNewcomer(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 1)
	w.node("n2", 1)
	w.queue("q")
	w.submit(job{name: "G", queue: "q", pods: 1, gang: 2, gpus: 1, node: "n1"})
	w.submit(job{name: "F", queue: "q", gpus: 1, age: 20})
	w.recreate("ns/G")
	w.settle()
	w.wantRunning("the replacement is placed on n2, F waits", map[string]int{"G": 2, "F": 0})
}

// R47: a gang whose members end well one after another is not broken.
func TestR47FinishingGang(t *testing.T) {
	for _, gone := range []bool{false, true} {
		w := newWorld(t)
		w.node("n1", 4)
		w.queue("q")
		w.submit(job{name: "G", queue: "q", pods: 4, gang: 4, gpus: 1, node: "n1"})
		for left := 4; left > 0; left-- {
			w.settle()
			if got := w.used("q"); int(got) != 1000*left {
				t.Errorf("MUST: the queue holds %d GPUs; it holds %d thousandths", left, got)
			}
			uid := fmt.Sprintf("G-%03d", 4-left)
			w.change(uid, func(p *model.Pod) { p.State = model.Succeeded })
			spec, _ := w.c.Workload("ns/G")
			spec.StaleSince, spec.StaleGrace = w.now-second, 0
			if gone { // the pod's object is cleaned up
				w.remove(uid)
				spec.Finished++
			}
			w.must(w.c.SetWorkload(spec))
			w.cycle()
			w.wantEvicted("NEVER: a running member is evicted", map[string]int{})
		}
	}
}

// R47, twin: a member that failed and is not replaced ends the rest after the
// grace.
func TestR47FailedMember(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.queue("q")
	w.submit(job{name: "G", queue: "q", pods: 4, gang: 4, gpus: 1, node: "n1"})
	w.change("G-000", func(p *model.Pod) { p.State = model.Failed })
	spec, _ := w.c.Workload("ns/G")
	spec.StaleSince, spec.StaleGrace = w.now, 60*second
	w.must(w.c.SetWorkload(spec))
	for range 59 {
		w.cycle()
	}
	w.wantEvicted("NEVER: before the grace is over", map[string]int{})
	w.cycle()
	w.wantEvicted("MUST: after the grace the rest is evicted", map[string]int{"G": 3})
}

// grouped adds a workload with a core and an optional sub-group.
func (w *world) grouped(core, extra int) {
	w.submit(job{name: "G", queue: "q", gang: 1, pods: 1, gpus: 1})
	w.remove("G-000")
	w.must(w.c.SetWorkload(model.Workload{
		Key: "ns/G", Queue: "q", Preemptible: true, MinSubGroup: 1, StaleGrace: 60 * second, StaleSince: w.now,
		SubGroups: []model.SubGroup{{Name: "core", MinMember: core}, {Name: "extra", MinMember: extra}},
	}))
}

func (w *world) memberOf(uid, group, node string) {
	p := model.Pod{
		UID: uid, Name: uid, Workload: "ns/G", SubGroup: group, State: model.Bound, Node: node, Request: model.Quantities{},
		Claims: []model.GPUClaim{{Name: "c", Kind: model.WholeGPU, Count: 1}},
	}
	w.pods[uid] = &p
	w.must(w.c.SetPod(p))
}

// R49: an optional branch below its minimum is released, the core stays.
func TestR49BrokenBranch(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	w.node("n2", 1)
	w.queue("q")
	w.grouped(2, 2)
	w.memberOf("c1", "core", "n1")
	w.memberOf("c2", "core", "n1")
	w.memberOf("e1", "extra", "n2")
	for range 59 {
		w.cycle()
	}
	w.wantEvicted("NEVER: before the grace is over", map[string]int{})
	for range 3 {
		w.cycle()
	}
	w.wantEvicted("MUST: e1 is released, the core untouched", map[string]int{"G": 1})
	if _, ok := w.pods["e1"]; ok {
		t.Error("MUST: it is e1 that is released")
	}
}

// R53: a raised minimum evicts nobody and holds nothing idle.
func TestR53MinimumRaised(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.queue("q")
	w.submit(job{name: "G", queue: "q", pods: 2, gang: 2, gpus: 1, node: "n1"})
	spec, _ := w.c.Workload("ns/G")
	spec.MinMember = 6
	w.must(w.c.SetWorkload(spec))
	for range 4 {
		w.recreate("ns/G")
	}
	for range 100 {
		w.cycle()
	}
	w.wantRunning("the two keep running", map[string]int{"G": 2})
	w.wantEvicted("NEVER: because of the edit", map[string]int{})
	w.wantReason("G", "gang of 4", "room for 2")
	if got := w.used("q"); got != 2000 {
		t.Errorf("NEVER: capacity held idle; the queue holds %d thousandths", got)
	}
	spec.MinMember = 2
	w.must(w.c.SetWorkload(spec))
	w.settle()
	w.wantRunning("with the old minimum it grows to what there is", map[string]int{"G": 4})
	spec.MinMember = -1
	if err := w.c.SetWorkload(spec); err == nil {
		t.Error("MUST: a negative minimum is refused")
	}
}

// R55: a gang with one member in the queue again is evicted as a whole.
func TestR55RequeuedMember(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, 1)
	}
	w.queue("q")
	w.submit(job{name: "G", queue: "q", pods: 1, gang: 3, gpus: 1, node: "n1", age: 30})
	for _, n := range []string{"n2", ""} {
		p := w.recreate("ns/G")
		if n != "" {
			w.change(p.UID, func(p *model.Pod) { p.State, p.Node = model.Bound, n })
		}
	}
	w.submit(job{name: "X", queue: "q", gpus: 1, priority: 200, node: "n3", age: 20})
	w.submit(job{name: "H", queue: "q", pods: 2, gang: 2, gpus: 1, priority: 100})
	w.settle()
	w.wantEvicted("MUST: both members of G, and nobody else", map[string]int{"G": 2})
	w.wantRunning("H runs, X untouched, G waits as a whole", map[string]int{"H": 2, "X": 1, "G": 0})
	if w.running("H", "n1") != 1 || w.running("H", "n2") != 1 {
		t.Error("MUST: H runs on n1 and n2")
	}
}

// R56: gated pods are neither demand nor usage, and their gang evicts nobody.
func TestR56GatedMembers(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	w.queue("q", limit(2))
	w.submit(job{name: "A", queue: "q", gpus: 2, age: 20})
	w.change("A-000", func(p *model.Pod) { p.State = model.Gated })
	w.submit(job{name: "B", queue: "q", gpus: 2})
	w.settle()
	w.wantRunning("B runs while A is gated", map[string]int{"B": 1, "A": 0})
	tree := w.c.Tree()
	if q, _ := tree.Index("q"); tree.Queues[q].Request[model.AtGPU] != 2000 {
		t.Errorf("NEVER: A is demand; the queue asks for %d", tree.Queues[q].Request[model.AtGPU])
	}
	w.submit(job{name: "G", queue: "q", pods: 2, gang: 2, gpus: 1, priority: 100})
	w.change("G-001", func(p *model.Pod) { p.State = model.Gated })
	w.settle()
	w.wantRunning("G waits for its gated member", map[string]int{"B": 1, "G": 0})
	w.wantEvicted("NEVER: evictions for a gang that is not ready", map[string]int{})
	w.wantReason("G", "GangNotReady", "1 pod is missing", "held back by a scheduling gate")
	w.change("G-001", func(p *model.Pod) { p.State = model.Pending })
	w.settle()
	w.wantRunning("once lifted G preempts", map[string]int{"G": 2})
}

// R58: growth preempts, once, and never its own pods.
func TestR58GrowthPreempts(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.queue("q", limit(4))
	w.submit(job{name: "L", queue: "q", gpus: 2, node: "n1", age: 20})
	w.submit(job{name: "E", queue: "q", pods: 2, gang: 1, gpus: 1, priority: 100, node: "n1", age: 10})
	w.recreate("ns/E")
	w.settle()
	w.wantEvicted("MUST: L once, nobody else", map[string]int{"L": 1})
	w.wantRunning("E has three", map[string]int{"E": 3})
}

// R59: finished members are no usage.
func TestR59FinishedMembersFreeTheirRoom(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.queue("q")
	w.submit(job{name: "J", queue: "q", pods: 8, gang: 8, gpus: 1, node: "n1"})
	for i := range 6 {
		w.change(fmt.Sprintf("J-%03d", i), func(p *model.Pod) { p.State = model.Succeeded })
	}
	spec, _ := w.c.Workload("ns/J")
	spec.MinMember = 4
	w.must(w.c.SetWorkload(spec))
	w.submit(job{name: "K", queue: "q", gpus: 6})
	w.settle()
	w.wantRunning("K runs beside the two", map[string]int{"K": 1, "J": 2})
	w.submit(job{name: "H", queue: "q", gpus: 2, priority: 100})
	w.settle()
	w.wantRunning("J is preempted whole", map[string]int{"J": 0, "H": 1, "K": 1})
}

// R59, twin: who stands in for the last member does not wait for those that
// finished; a run that is over lends its members to none that follows.
func TestR59LastMemberIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name         string
		done, coming int
		oneRun       bool
		want         int
	}{
		{name: "three of four finished", done: 3, coming: 1, want: 1},
		{name: "two of four finished, one of two came back", done: 2, coming: 1, want: 0},
		{name: "two of four finished, both came back", done: 2, coming: 2, want: 2},
		{name: "all finished, one member of the next run came", done: 4, coming: 1, want: 0},
		{name: "all finished, the next run came whole", done: 4, coming: 4, want: 4},
		{name: "all finished, one more pod of the same run", done: 4, coming: 1, oneRun: true, want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 8)
			w.queue("q")
			w.submit(job{name: "J", queue: "q", pods: c.done + c.coming, gang: 4, gpus: 1})
			for i := range c.done {
				w.change(fmt.Sprintf("J-%03d", i), func(p *model.Pod) { p.State = model.Succeeded })
			}
			spec, _ := w.c.Workload("ns/J")
			spec.OneRun = c.oneRun
			w.must(w.c.SetWorkload(spec))
			w.settle()
			w.wantRunning("what is missing of the minimum", map[string]int{"J": c.want})
		})
	}
}
