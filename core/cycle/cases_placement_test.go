// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// R61: two moves, and no more, put four scattered GPUs together.
func TestR61ScatteredGPUs(t *testing.T) {
	orders := [][]string{
		{"n1-4", "n1-2", "n1-1", "n2-4", "n2-2", "n3-4", "n3-2", "n3-1"},
		{"n3-1", "n3-2", "n3-4", "n2-2", "n2-4", "n1-1", "n1-2", "n1-4"},
		{"n2-4", "n2-2", "n1-1", "n3-1", "n1-4", "n3-4", "n1-2", "n3-2"},
	}
	for _, order := range orders {
		w := newWorld(t)
		w.queue("q")
		for _, n := range []string{"n1", "n2", "n3"} {
			w.node(n, 8)
		}
		for i, name := range order {
			w.submit(job{name: name, queue: "q", gpus: int(name[3] - '0'), node: name[:2], age: int64(100 - i), recreated: true})
		}
		w.submit(job{name: "P", queue: "q", gpus: 4})
		w.settle()
		total := 0
		for name, n := range w.evicted {
			if total += n; name[3] == '4' {
				t.Errorf("NEVER: a job of 4 GPUs is moved: %s", name)
			}
		}
		if total != 2 {
			t.Errorf("MUST: exactly 2 moves; got %v", w.evicted)
		}
		want := map[string]int{"P": 1}
		for _, name := range order {
			want[name] = 1
		}
		w.wantRunning("P and all that moved run", want)
	}
}

// R61: pods that nothing would recreate are not moved.
func TestR61NothingMovable(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	w.node("n1", 2)
	w.node("n2", 2)
	w.submit(job{name: "a", queue: "q", gpus: 1, node: "n1"})
	w.submit(job{name: "b", queue: "q", gpus: 1, node: "n2"})
	w.submit(job{name: "P", queue: "q", gpus: 2})
	w.settle()
	w.wantEvicted("NEVER: pods that nothing recreates are moved", map[string]int{})
	w.wantReason("P", "2 GPUs asked, the largest free block is 1")
}

// holdsGPU fixes which part of which GPU a running job has.
func (w *world) holdsGPU(name, gpu string, milli int64) {
	w.change(name+"-000", func(p *model.Pod) {
		p.Held = []model.HeldGPU{{Claim: "c", GPU: gpu, Milli: milli, MemoryMiB: model.MemoryOfMilli(milli, 16384)}}
	})
}

// R62: one move empties a card.
func TestR62HalfUsedCards(t *testing.T) {
	for _, movable := range []bool{true, false} {
		w := newWorld(t)
		w.queue("q")
		w.node("n1", 2)
		w.node("n2", 2)
		w.submit(job{name: "F1", queue: "q", milli: 500, node: "n1", age: 9, recreated: movable})
		w.submit(job{name: "F2", queue: "q", milli: 500, node: "n1", age: 8, recreated: movable})
		w.submit(job{name: "F3", queue: "q", milli: 600, node: "n2", age: 7, recreated: true})
		w.submit(job{name: "F4", queue: "q", milli: 300, node: "n2", age: 6, recreated: true})
		w.holdsGPU("F1", "0", 500)
		w.holdsGPU("F2", "1", 500)
		w.holdsGPU("F3", "0", 600)
		w.holdsGPU("F4", "1", 300)
		w.submit(job{name: "W", queue: "q", gpus: 1})
		w.settle()
		total := 0
		for _, n := range w.evicted {
			total += n
		}
		if total != 1 || w.evicted["F3"] > 0 || !movable && w.evicted["F4"] != 1 {
			t.Errorf("MUST: exactly one move, NEVER F3 nor a pod that cannot move; got %v", w.evicted)
		}
		w.wantRunning("all run", map[string]int{"W": 1, "F1": 1, "F2": 1, "F3": 1, "F4": 1})
	}
}

// oneRack keeps a job in one rack.
func (w *world) oneRack(name string) {
	spec, _ := w.c.Workload("ns/" + name)
	spec.Topology = &model.TopologyConstraint{Topology: "racks", Required: "rack"}
	w.must(w.c.SetWorkload(spec))
}

func (w *world) racks() {
	w.must(w.c.SetTopology(model.Topology{Name: "racks", Levels: []string{"rack", "name"}}))
}

// R64: a replacement does not go back to a tainted node.
func TestR64TaintedNode(t *testing.T) {
	taint := func(n *model.Node) { n.Taints = []model.Taint{{Key: "broken", Effect: "NoSchedule"}} }
	for _, full := range []bool{false, true} {
		w := newWorld(t)
		w.queue("q")
		for _, n := range []string{"n1", "n2", "n3"} {
			w.node(n, 2)
		}
		w.submit(job{name: "G", queue: "q", pods: 1, gang: 2, gpus: 2, node: "n1", age: 10})
		p := w.recreate("ns/G")
		w.change(p.UID, func(p *model.Pod) { p.State, p.Node = model.Bound, "n2" })
		if full {
			w.submit(job{name: "X", queue: "q", gpus: 2, node: "n3", firm: true})
			w.queue("q", quota(8))
		}
		w.node("n2", 2, taint)
		w.remove(p.UID)
		w.recreate("ns/G")
		w.settle()
		if w.running("G", "n2") != 0 {
			t.Error("NEVER: a member is placed on n2 again")
		}
		if got := w.running("G", "n3"); !full && got != 1 {
			t.Error("MUST: the replacement runs on n3")
		}
		if full {
			w.wantReason("G", "tainted")
		}
	}
}

// R64, variant: the taint arrives between plan and bind.
func TestR64TaintAfterThePlan(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	w.node("n1", 1)
	w.submit(job{name: "A", queue: "q", gpus: 1})
	w.change("A-000", func(p *model.Pod) {
		p.State, p.Node, p.Held = model.Promised, "n1", []model.HeldGPU{{Claim: "c", GPU: "0", Milli: 1000, MemoryMiB: 16384}}
	})
	w.node("n1", 1, func(n *model.Node) { n.Taints = []model.Taint{{Key: "broken", Effect: "NoSchedule"}} })
	w.node("n2", 1)
	w.cycle()
	if !slices.Contains(w.plan.Withdrawn, "A-000") || w.running("A", "n2") != 1 {
		t.Errorf("MUST: the promise is withdrawn and A runs on n2; withdrawn %v", w.plan.Withdrawn)
	}
}

// R65: a late member joins its rack or waits.
func TestR65LateMember(t *testing.T) {
	w := newWorld(t)
	w.racks()
	w.queue("q")
	for i, rack := range []string{"a", "a", "b", "b"} {
		w.node(fmt.Sprint("n", i+1), 1, label("rack", rack))
	}
	w.submit(job{name: "G", queue: "q", pods: 1, gang: 2, gpus: 1, node: "n1", age: 10})
	w.oneRack("G")
	w.node("n2", 1, label("rack", "a"), func(n *model.Node) { n.Ready = false })
	w.recreate("ns/G")
	w.settle()
	w.wantRunning("the replacement waits", map[string]int{"G": 1})
	w.wantReason("G", "TopologyDoesNotFit", "rack")
	w.node("n2", 1, label("rack", "a"))
	w.settle()
	if w.running("G", "n2") != 1 {
		t.Error("MUST: it runs on n2 once that is back")
	}
}

// R67: a job that failed for its topology does not hide one without.
func TestR67ShapeIsNotEverything(t *testing.T) {
	w := newWorld(t)
	w.racks()
	w.queue("q")
	w.node("n1", 1, label("rack", "a"))
	w.node("n2", 1, label("rack", "b"))
	w.submit(job{name: "J1", queue: "q", pods: 2, gang: 2, gpus: 1, age: 10})
	w.oneRack("J1")
	w.submit(job{name: "J2", queue: "q", pods: 2, gang: 2, gpus: 1})
	w.cycle()
	w.wantRunning("J2 runs in the same cycle", map[string]int{"J1": 0, "J2": 2})
	w.wantReason("J1", "room for 1")
}

// R67, more pairs: the first cannot run, the second differs in one thing and can.
func TestR67Pairs(t *testing.T) {
	pairs := map[string]func(w *world, first, second *job){
		"selector": func(_ *world, first, _ *job) { first.nodeLabel = map[string]string{"zone": "nowhere"} },
		"fraction": func(_ *world, first, second *job) { first.gpus, second.milli = 2, 500; second.gpus = 0 },
		"queue":    func(w *world, first, _ *job) { w.queue("full", limit(0)); first.queue = "full" },
		"priority": func(_ *world, first, second *job) { first.firm, second.priority = true, 50 },
		"chunk":    func(_ *world, first, _ *job) { first.pods, first.gang = 2, 2 },
		"CPU":      func(_ *world, first, _ *job) { first.cpu = amount.Amount(1) << 40 },
	}
	for name, differ := range pairs {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.queue("q")
			w.node("n1", 1)
			first := job{name: "first", queue: "q", gpus: 1, age: 10}
			second := job{name: "second", queue: "q", gpus: 1}
			differ(w, &first, &second)
			w.submit(first)
			w.submit(second)
			w.cycle()
			w.wantRunning("only the second can run, and does", map[string]int{"first": 0, "second": 1})
			if w.reason("first") == "" {
				t.Error("MUST: the first has a reason")
			}
		})
	}
}

// R70: a pending memory request is measured by real cards.
func TestR70SmallestCard(t *testing.T) {
	size := func(mib int64) func(*model.Node) {
		return func(n *model.Node) { n.GPUs[0].MemoryMiB = mib }
	}
	for _, extra := range []bool{false, true} {
		w := newWorld(t)
		w.queue("q", limit(1))
		w.node("n1", 1, size(40900))
		w.node("n2", 1, size(81800))
		if extra {
			w.node("n0", 0)
		}
		w.submit(job{name: "P", queue: "q", memMiB: 20450})
		tree := w.c.Tree()
		if q, _ := tree.Index("q"); tree.Queues[q].Request[model.AtGPU] != 500 {
			t.Errorf("MUST: while pending it costs 0.5 GPUs; it costs %d thousandths", tree.Queues[q].Request[model.AtGPU])
		}
		w.cycle()
		want := map[string]amount.Amount{"n1": 500, "n2": 250}[w.pods["P-000"].Node]
		if got := w.used("q"); got != want || got == 0 {
			t.Errorf("MUST: on %s it costs %d; it costs %d", w.pods["P-000"].Node, want, got)
		}
	}
}

// R71: a card of unknown size serves no memory, says so, and does once known.
func TestR71UnknownCardSize(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	w.node("n1", 1, func(n *model.Node) { n.GPUs[0].MemoryMiB = 0 })
	w.submit(job{name: "P2", queue: "q", memMiB: 4096})
	w.settle()
	w.wantRunning("P2 waits", map[string]int{"P2": 0})
	w.wantReason("P2", "size of their GPU memory is not known")
	w.node("n1", 1)
	w.settle()
	w.wantRunning("P2 runs once the size is known", map[string]int{"P2": 1})
}

// R73: two containers of one pod, each on the card that has room for it.
func TestR73TwoContainers(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	w.node("n1", 2, func(n *model.Node) { n.GPUs[0].MemoryMiB, n.GPUs[1].MemoryMiB = 10240, 10240 })
	w.submit(job{name: "P", queue: "q"})
	w.change("P-000", func(p *model.Pod) {
		p.Claims = []model.GPUClaim{{Name: "c1", Kind: model.GPUMemory, Count: 1, MemoryMiB: 10240}, {Name: "c2", Kind: model.GPUMemory, Count: 1, MemoryMiB: 1024}}
	})
	w.cycle()
	w.submit(job{name: "Q", queue: "q", memMiB: 9216})
	w.cycle()
	w.submit(job{name: "R", queue: "q", memMiB: 1})
	w.settle()
	w.wantRunning("P and Q run, R has no room", map[string]int{"P": 1, "Q": 1, "R": 0})
	load := map[string]int64{}
	for _, uid := range []string{"P-000", "Q-000"} {
		live, _ := w.c.Pod(uid)
		for _, h := range live.Held {
			load[h.GPU] += h.MemoryMiB
		}
	}
	if load["0"] != 10240 || load["1"] != 10240 {
		t.Errorf("MUST: each card carries 10240 MiB; they carry %v", load)
	}
}

// R76: a share joins the card that has room, nobody goes to a full or cordoned
// one.
func TestR76FullCard(t *testing.T) {
	w := newWorld(t)
	w.queue("q")
	w.node("n1", 1)
	w.node("n2", 1, func(n *model.Node) { n.Unschedulable = true })
	w.submit(job{name: "P0", queue: "q", milli: 600, node: "n1", age: 9})
	w.submit(job{name: "P1", queue: "q", milli: 600, age: 8})
	w.submit(job{name: "P2", queue: "q", milli: 400, age: 7})
	w.submit(job{name: "P3", queue: "q", gpus: 1, age: 6})
	w.settle()
	w.wantRunning("P2 joins P0, the others wait", map[string]int{"P0": 1, "P1": 0, "P2": 1, "P3": 0})
}
