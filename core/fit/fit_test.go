// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

// one is a cluster with a single node "n" of two GPUs and a pod "p" to try.
func one(t *testing.T, node func(*model.Node), pod func(*model.Pod), others ...model.Pod) *model.Cluster {
	t.Helper()
	c := model.NewCluster(model.DefaultSettings())
	n := model.Node{
		Name: "n", Ready: true, Labels: map[string]string{"zone": "z1", "cores": "64"}, Isolation: 2,
		Allocatable: model.Quantities{"cpu": 8000, "memory": 1 << 34, "pods": 10},
	}
	for i := range 2 {
		n.GPUs = append(n.GPUs, model.GPU{ID: fmt.Sprint(i), Model: "A", MemoryMiB: 1000, Healthy: true, Shareable: true})
	}
	p := model.Pod{UID: "p", Name: "p", Workload: "ns/p", Request: model.Quantities{"cpu": 1000}}
	if node != nil {
		node(&n)
	}
	if pod != nil {
		pod(&p)
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.SetNode(n))
	check(c.SetPod(p))
	for _, o := range others {
		o.Workload = "ns/" + o.UID
		check(c.SetPod(o))
	}
	return c
}

func whole(n int) model.GPUClaim {
	return model.GPUClaim{Name: "main", Kind: model.WholeGPU, Count: n}
}

func slice(milli int64, n int) model.GPUClaim {
	return model.GPUClaim{Name: fmt.Sprint("s", milli), Kind: model.GPUSlice, Count: n, Milli: milli}
}

func memory(mib int64) model.GPUClaim {
	return model.GPUClaim{Name: fmt.Sprint("m", mib), Kind: model.GPUMemory, Count: 1, MemoryMiB: mib}
}

func claims(cl ...model.GPUClaim) func(*model.Pod) {
	return func(p *model.Pod) { p.Claims = cl }
}

// holds is a pod that has milli thousandths and MiB of one GPU.
func holds(uid string, state model.PodState, gpu string, milli, mib int64) model.Pod {
	return model.Pod{
		UID: uid, Name: uid, State: state, Node: "n", Claims: []model.GPUClaim{slice(max(milli, 1), 1)},
		Held: []model.HeldGPU{{Claim: fmt.Sprint("s", milli), GPU: gpu, Milli: milli, MemoryMiB: mib}},
	}
}

func sharers(limit int) func(*model.Node) {
	return func(n *model.Node) {
		for i := range n.GPUs {
			n.GPUs[i].MaxSharers = limit
		}
	}
}

// TestCheck says, case by case, what keeps a pod from starting on a node.
func TestCheck(t *testing.T) {
	term := func(r ...model.Requirement) func(*model.Pod) {
		return func(p *model.Pod) { p.NodeTerms = [][]model.Requirement{r} }
	}
	taint := func(n *model.Node) { n.Taints = []model.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}} }
	tests := []struct {
		name   string
		node   func(*model.Node)
		pod    func(*model.Pod)
		others []model.Pod
		want   string // part of the message, "" if it fits
	}{
		{name: "an empty node takes a pod"},
		{name: "not ready", node: func(n *model.Node) { n.Ready = false }, want: "not ready"},
		{name: "cordoned", node: func(n *model.Node) { n.Unschedulable = true }, want: "cordoned"},
		{name: "too much CPU", pod: func(p *model.Pod) { p.Request["cpu"] = 8001 }, want: "8.001 CPU cores asked, 8 free"},
		{name: "an unknown resource", pod: func(p *model.Pod) { p.Request["example.com/fpga"] = 1 }, want: "1 example.com/fpga asked, 0 free"},
		{name: "a request of nothing needs no room", pod: func(p *model.Pod) { p.Request["example.com/fpga"] = 0 }},
		{name: "no pod slot", node: func(n *model.Node) { n.Allocatable["pods"] = 0 }, want: "1 pod slot asked, 0 free"},

		{name: "In", pod: term(model.Requirement{Key: "zone", Op: model.OpIn, Values: []string{"z0", "z1"}})},
		{name: "In, other value", pod: term(model.Requirement{Key: "zone", Op: model.OpIn, Values: []string{"z0"}}), want: "selector"},
		{name: "In, no label", pod: term(model.Requirement{Key: "rack", Op: model.OpIn, Values: []string{"z0"}}), want: "selector"},
		{name: "NotIn, no label", pod: term(model.Requirement{Key: "rack", Op: model.OpNotIn, Values: []string{"z0"}})},
		{name: "NotIn", pod: term(model.Requirement{Key: "zone", Op: model.OpNotIn, Values: []string{"z1"}}), want: "selector"},
		{name: "Exists", pod: term(model.Requirement{Key: "zone", Op: model.OpExists})},
		{name: "DoesNotExist", pod: term(model.Requirement{Key: "zone", Op: model.OpDoesNotExist}), want: "selector"},
		{name: "Gt", pod: term(model.Requirement{Key: "cores", Op: model.OpGt, Values: []string{"63"}})},
		{name: "Gt is strict", pod: term(model.Requirement{Key: "cores", Op: model.OpGt, Values: []string{"64"}}), want: "selector"},
		{name: "Lt of a word", pod: term(model.Requirement{Key: "zone", Op: model.OpLt, Values: []string{"64"}}), want: "selector"},
		{name: "by name", pod: term(model.Requirement{Key: model.FieldNodeName, Op: model.OpIn, Values: []string{"n"}})},
		{name: "all requirements of a term hold", pod: term(model.Requirement{Key: "zone", Op: model.OpExists}, model.Requirement{Key: "rack", Op: model.OpExists}), want: "selector"},
		{name: "an empty term allows nothing", pod: func(p *model.Pod) { p.NodeTerms = [][]model.Requirement{{}} }, want: "selector"},

		{name: "tainted", node: taint, want: "tainted"},
		{name: "tolerated", node: taint, pod: func(p *model.Pod) {
			p.Tolerations = []model.Toleration{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}}
		}},
		{name: "tolerated whatever the value", node: taint, pod: func(p *model.Pod) { p.Tolerations = []model.Toleration{{Key: "gpu", Exists: true}} }},
		{name: "everything tolerated", node: taint, pod: func(p *model.Pod) { p.Tolerations = []model.Toleration{{Exists: true}} }},
		{name: "another value tolerated", node: taint, pod: func(p *model.Pod) { p.Tolerations = []model.Toleration{{Key: "gpu", Value: "no"}} }, want: "tainted"},
		{name: "a preference only", node: func(n *model.Node) { n.Taints = []model.Taint{{Key: "gpu", Effect: "PreferNoSchedule"}} }},

		{name: "isolation", pod: func(p *model.Pod) { p.MinIsolation = 2 }},
		{name: "stronger isolation", pod: func(p *model.Pod) { p.MinIsolation = 3 }, want: "isolation"},
		{
			name: "a MIG instance has the strongest isolation on any node", node: func(n *model.Node) { n.Allocatable["mig-1g.5gb"] = 1 },
			pod: func(p *model.Pod) { p.MinIsolation, p.Request["mig-1g.5gb"] = 3, 1 },
		},
		{
			name: "a slice beside a MIG instance has not", node: func(n *model.Node) { n.Allocatable["mig-1g.5gb"] = 1 },
			pod: func(p *model.Pod) {
				claims(slice(100, 1))(p)
				p.MinIsolation, p.Request["mig-1g.5gb"] = 3, 1
			}, want: "isolation",
		},
		{name: "excluded", pod: func(p *model.Pod) { p.ExcludedNodes = []string{"n"} }, want: "refused by the scheduler"},

		{name: "two whole GPUs", pod: claims(whole(2))},
		{name: "three whole GPUs", pod: claims(whole(3)), want: "3 GPUs asked, 2 free"},
		{name: "a whole GPU beside a share", pod: claims(whole(1)), others: []model.Pod{holds("a", model.Bound, "0", 100, 100)}},
		{name: "two whole GPUs beside a share", pod: claims(whole(2)), others: []model.Pod{holds("a", model.Bound, "0", 100, 100)}, want: "2 GPUs asked, 1 free"},
		{
			name: "a share in the rest of a GPU", pod: claims(slice(700, 1)),
			others: []model.Pod{holds("a", model.Bound, "0", 300, 300), holds("b", model.Bound, "1", 600, 600)},
		},
		{
			name: "two halves are no three quarters", pod: claims(slice(750, 1)),
			others: []model.Pod{holds("a", model.Bound, "0", 500, 500), holds("b", model.Bound, "1", 500, 500)}, want: "0.75 GPUs asked in one piece, 0.5 free",
		},
		{
			name: "thousandths left, memory gone", pod: claims(slice(100, 1)),
			others: []model.Pod{holds("a", model.Bound, "0", 100, 950), holds("b", model.Bound, "1", 100, 950)}, want: "asked in one piece",
		},
		{
			name: "memory left, thousandths gone", pod: claims(memory(10)),
			others: []model.Pod{holds("a", model.Bound, "0", 1000, 10), holds("b", model.Bound, "1", 1000, 10)}, want: "asked",
		},
		{name: "more memory than a GPU has", pod: claims(memory(1001)), want: "asked"},
		{name: "a share on each of two GPUs", pod: claims(slice(400, 2)), others: []model.Pod{holds("a", model.Bound, "0", 600, 600)}},
		{name: "a share on each of two GPUs, one too full", pod: claims(slice(500, 2)), others: []model.Pod{holds("a", model.Bound, "0", 600, 600)}, want: "asked"},
		{name: "two claims may share a GPU", pod: claims(slice(300, 1), slice(400, 1)), others: []model.Pod{holds("a", model.Bound, "0", 900, 900)}},
		{
			name: "claims that only fit crosswise", pod: claims(slice(300, 1), slice(400, 1)),
			others: []model.Pod{holds("a", model.Bound, "0", 600, 600), holds("b", model.Bound, "1", 700, 700)},
		},
		{name: "a whole GPU and a share", pod: claims(slice(300, 1), whole(1)), others: []model.Pod{holds("a", model.Bound, "0", 600, 600)}},
		{name: "a whole GPU shares with nobody, itself included", pod: claims(slice(300, 1), whole(2)), want: "asked"},

		{name: "a third sharer", node: sharers(3), pod: claims(slice(100, 1), slice(200, 1)), others: []model.Pod{holds("a", model.Bound, "0", 100, 100), holds("b", model.Bound, "1", 100, 100)}},
		{name: "a share on each of two GPUs, one has all its sharers", node: sharers(1), pod: claims(slice(100, 2)), others: []model.Pod{holds("a", model.Bound, "0", 100, 100)}, want: "the 1 sharers"},
		{name: "containers are counted, not pods", node: sharers(1), pod: claims(slice(100, 1), slice(200, 1)), others: []model.Pod{holds("a", model.Bound, "0", 100, 100)}, want: "the 1 sharers"},
		{name: "sharers that leave are counted", node: sharers(1), pod: claims(slice(100, 2)), others: []model.Pod{holds("a", model.Releasing, "0", 100, 100)}, want: "still being released"},
		{name: "a whole GPU has one user", node: sharers(1), pod: claims(whole(2))},
		{name: "no room is said before too many sharers", node: sharers(1), pod: claims(slice(950, 2)), others: []model.Pod{holds("a", model.Bound, "0", 100, 100)}, want: "0.95 GPUs asked in one piece"},

		{name: "unhealthy GPUs take nothing new", node: func(n *model.Node) { n.GPUs[0].Healthy = false }, pod: claims(whole(2)), want: "2 GPUs asked, 1 free"},
		{name: "no shares of GPUs that are not shareable", node: func(n *model.Node) { n.GPUs[0].Shareable, n.GPUs[1].Shareable = false, false }, pod: claims(slice(10, 1)), want: "asked"},
		{name: "no shares without a known memory size", node: func(n *model.Node) { n.GPUs[0].MemoryMiB, n.GPUs[1].MemoryMiB = 0, 0 }, pod: claims(slice(10, 1)), want: "memory is not known"},
		{name: "whole GPUs without a known memory size", node: func(n *model.Node) { n.GPUs[0].MemoryMiB, n.GPUs[1].MemoryMiB = 0, 0 }, pod: claims(whole(2))},
		{name: "no GPUs in whole on a MIG node", node: func(n *model.Node) { n.MIGStrategy = "mixed" }, pod: claims(whole(1)), want: "MIG"},
		{
			name: "no profiles under the single strategy", node: func(n *model.Node) { n.MIGStrategy, n.Allocatable["mig-1g.5gb"] = "single", 1 },
			pod: func(p *model.Pod) { p.Request["mig-1g.5gb"] = 1 }, want: "MIG",
		},
		{
			name: "a profile", node: func(n *model.Node) { n.MIGStrategy, n.Allocatable["mig-1g.5gb"] = "mixed", 1 },
			pod: func(p *model.Pod) { p.Request["mig-1g.5gb"] = 1 },
		},

		{name: "room that is being released is not there yet", pod: claims(whole(2)), others: []model.Pod{holds("a", model.Releasing, "0", 100, 100)}, want: "still being released"},
		{name: "a stuck pod's room is promised to nobody", pod: claims(whole(2)), others: []model.Pod{holds("a", model.Stuck, "0", 100, 100)}, want: "2 GPUs asked, 1 free"},
		{name: "promised room is gone", pod: claims(whole(2)), others: []model.Pod{holds("a", model.Promised, "0", 100, 100)}, want: "2 GPUs asked, 1 free"},
		{name: "finished pods hold nothing", pod: claims(whole(2)), others: []model.Pod{holds("a", model.Succeeded, "0", 100, 100)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := one(t, test.node, test.pod, test.others...)
			before := digest(c)
			got := fit.Check(c, "p", "n")
			switch {
			case test.want == "" && got != nil:
				t.Errorf("refused: %s", got.Message)
			case test.want != "" && got == nil:
				t.Errorf("allowed, want %q", test.want)
			case test.want != "" && !strings.Contains(got.Message, test.want):
				t.Errorf("%q does not say %q", got.Message, test.want)
			}
			if digest(c) != before {
				t.Error("the check left a trace")
			}
		})
	}
}

func digest(c *model.Cluster) uint64 {
	c.Settle()
	return c.Digest()
}

func TestCheckKnowsTheirNames(t *testing.T) {
	c := one(t, nil, nil)
	if r := fit.Check(c, "nobody", "n"); r == nil || r.Code != explain.InvalidRequest {
		t.Errorf("unknown pod: %+v", r)
	}
	if r := fit.Check(c, "p", "nowhere"); r == nil || !strings.Contains(r.Message, "nowhere") {
		t.Errorf("unknown node: %+v", r)
	}
}

// A promise counts as the pod's own, also while what was there before leaves.
func TestCheckCountsAPromiseAsOwn(t *testing.T) {
	promised := func(p *model.Pod) {
		p.State, p.Node, p.Claims = model.Promised, "n", []model.GPUClaim{whole(2)}
		p.Held = []model.HeldGPU{{Claim: "main", GPU: "0", Milli: 1000, MemoryMiB: 1000}, {Claim: "main", GPU: "1", Milli: 1000, MemoryMiB: 1000}}
	}
	if r := fit.Check(one(t, nil, promised), "p", "n"); r != nil {
		t.Errorf("refused its own room: %s", r.Message)
	}
	r := fit.Check(one(t, nil, promised, holds("a", model.Releasing, "0", 100, 100)), "p", "n")
	if r == nil || r.Code != explain.WaitingForRelease {
		t.Errorf("room that another still holds: %+v", r)
	}
	onOne := func(gpu string) func(*model.Pod) {
		return func(p *model.Pod) {
			p.State, p.Node, p.Claims = model.Promised, "n", []model.GPUClaim{whole(1)}
			p.Held = []model.HeldGPU{{Claim: "main", GPU: gpu, Milli: 1000, MemoryMiB: 1000}}
		}
	}
	if r := fit.Check(one(t, nil, onOne("0"), holds("a", model.Releasing, "0", 100, 100)), "p", "n"); r == nil || r.Code != explain.WaitingForRelease {
		t.Errorf("a GPU that another still holds, while the other one is free: %+v", r)
	}
	if r := fit.Check(one(t, nil, onOne("gone")), "p", "n"); r == nil || r.Code != explain.WaitingForRelease {
		t.Errorf("a GPU that the node has no more: %+v", r)
	}
}

// TestGPUs says which GPUs a share takes.
func TestGPUs(t *testing.T) {
	used := []model.Pod{holds("a", model.Bound, "1", 300, 300)}
	tests := []struct {
		name   string
		claim  model.GPUClaim
		order  model.Spreading
		others []model.Pod
		want   string
	}{
		{"pack joins the GPU in use", slice(500, 1), model.Pack, used, "1"},
		{"spread takes the fresh one", slice(500, 1), model.Spread, used, "0"},
		{"pack fills the fullest", slice(300, 1), model.Pack, []model.Pod{holds("a", model.Bound, "0", 300, 300), holds("b", model.Bound, "1", 600, 600)}, "1"},
		{"spread takes the freest", slice(300, 1), model.Spread, []model.Pod{holds("a", model.Bound, "0", 300, 300), holds("b", model.Bound, "1", 600, 600)}, "0"},
		{"what does not fit is no choice", slice(800, 1), model.Pack, used, "0"},
		{
			"free now before free later", slice(500, 1), model.Pack,
			[]model.Pod{holds("a", model.Bound, "1", 300, 300), holds("b", model.Releasing, "1", 600, 600)},
			"0",
		},
		{"whole takes what nobody uses", whole(1), model.Pack, []model.Pod{holds("a", model.Bound, "0", 300, 300)}, "1"},
		{"equal ones by ID", whole(1), model.Pack, nil, "0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := one(t, nil, claims(test.claim), test.others...)
			c.Settle()
			n := c.NodeNamed("n")
			got, _, ok := fit.GPUs(c.PodByUID("p").Shape, n, test.order)
			if !ok || len(got) != 1 || n.GPUs[got[0].GPU].ID != test.want {
				t.Errorf("got %+v %t, want GPU %s", got, ok, test.want)
			}
		})
	}
}

// Count agrees with placing one pod after the other.
func TestCountIsWhatFits(t *testing.T) {
	for _, cl := range []model.GPUClaim{whole(1), whole(2), slice(300, 1), slice(500, 1), slice(500, 2), slice(300, 2), memory(400)} {
		c := one(t, nil, claims(cl), holds("a", model.Bound, "0", 350, 350))
		c.Settle()
		n, p := c.NodeNamed("n"), c.PodByUID("p")
		want := fit.Count(p.Shape, n, 100)
		got := 0
		for ; ; got++ {
			held, _, ok := fit.GPUs(p.Shape, n, model.Pack)
			if !ok {
				break
			}
			uid := fmt.Sprint("x", got)
			spec := *p.Spec
			spec.UID, spec.State, spec.Node = uid, model.Bound, "n"
			for _, h := range held {
				spec.Held = append(spec.Held, model.HeldGPU{Claim: cl.Name, GPU: n.GPUs[h.GPU].ID, Milli: h.Milli, MemoryMiB: h.MiB})
			}
			if err := c.SetPod(spec); err != nil {
				t.Fatal(err)
			}
			c.Settle()
		}
		if got != want {
			t.Errorf("%+v: Count says %d, %d were placed", cl, want, got)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c := model.NewCluster(model.DefaultSettings())
	for i := range 1000 {
		n := model.Node{Name: fmt.Sprint("n", i), Ready: true, Allocatable: model.Quantities{"cpu": 8000, "pods": 10}}
		for g := range 8 {
			n.GPUs = append(n.GPUs, model.GPU{ID: fmt.Sprint(g), Model: "A", MemoryMiB: 1000, Healthy: true, Shareable: true})
		}
		if err := c.SetNode(n); err != nil {
			b.Fatal(err)
		}
	}
	p := model.Pod{UID: "p", Name: "p", Workload: "w", Request: model.Quantities{"cpu": 1}, Claims: []model.GPUClaim{slice(300, 1)}}
	if err := c.SetPod(p); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if r := fit.Check(c, "p", fmt.Sprint("n", i%1000)); r != nil {
			b.Fatal(r.Message)
		}
	}
}
