// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

// odd draws clusters with everything that the model can say, sensible or not:
// missing parents, nodes and topologies, strays, GPUs of unknown size, MIG, rules
// between pods, optional sub-groups, budgets, protected and stale gangs.
type odd struct {
	*rapid.T
	c *model.Cluster
}

func (o odd) number(from, to int, what string) int { return rapid.IntRange(from, to).Draw(o.T, what) }

func (o odd) pick(what string, of ...string) string { return rapid.SampledFrom(of).Draw(o.T, what) }

func (o odd) must(err error) {
	if err != nil {
		o.Fatal(err)
	}
}

func drawAnything(t *rapid.T) odd {
	s := model.DefaultSettings()
	o := odd{t, nil}
	s.NodeSpreadingGPU, s.GPUSpreading = model.Spreading(o.number(0, 2, "nodes")), model.Spreading(o.number(0, 1, "gpus"))
	s.StaleGrace = int64(o.number(-1, 1, "grace")) * second
	s.MaxConsolidationVictims = o.number(-1, 2, "moves")
	s.StepLimit = o.number(0, 30, "steps")
	o.c = model.NewCluster(s)
	o.c.SetNow(1000 * second)
	for i := range o.number(0, 4, "number of nodes") {
		o.node(fmt.Sprint("n", i))
	}
	for _, name := range []string{"root", "a", "b", "c"} {
		o.queue(name)
	}
	if o.number(0, 3, "topology") > 0 {
		o.must(o.c.SetTopology(model.Topology{Name: "net", Levels: []string{"zone", "host"}}))
	}
	for i := range o.number(1, 7, "workloads") {
		o.workload(fmt.Sprint("ns/w", i))
	}
	var budgets []model.DisruptionBudget
	for i := range o.number(0, 2, "budgets") {
		budgets = append(budgets, model.DisruptionBudget{
			Key: fmt.Sprint("b", i), Allowed: o.number(0, 1, "allowed"),
			Pods: []string{fmt.Sprintf("ns/w%d-0", i), fmt.Sprintf("ns/w%d-1", i), "nobody"},
		})
	}
	o.c.SetBudgets(budgets)
	return o
}

func (o odd) node(name string) {
	n := model.Node{
		Name: name, Ready: o.number(0, 7, "ready") > 0, Unschedulable: o.number(0, 7, "cordoned") == 0,
		Labels:      map[string]string{"zone": o.pick("zone", "x", "y"), "host": name},
		Isolation:   o.number(0, 2, "isolation"),
		MIGStrategy: o.pick("mig", "", "", "", "mixed", "single"),
		Allocatable: model.Quantities{"cpu": 8000, "memory": 1 << 34, "pods": 12, "mig-1g.5gb": amount.Amount(o.number(0, 2, "instances"))},
	}
	if n.Labels["host"] == "n3" {
		delete(n.Labels, "zone")
	}
	if o.number(0, 5, "tainted") == 0 {
		n.Taints = []model.Taint{{Key: "k", Effect: "NoSchedule"}}
	}
	for g := range o.number(0, 4, "GPUs") {
		n.GPUs = append(n.GPUs, model.GPU{
			ID: fmt.Sprint(g), Model: o.pick("model", "A", "B"), MemoryMiB: int64(o.number(0, 2, "size")) * 40_000,
			Healthy: o.number(0, 9, "healthy") > 0, Shareable: o.number(0, 9, "shareable") > 0,
		})
	}
	o.must(o.c.SetNode(n))
}

func (o odd) queue(name string) {
	q := model.Queue{
		Name: name, Priority: int32(o.number(0, 1, "queue priority")), CreatedAt: int64(o.number(0, 2, "queue age")),
		Quota: model.Quantities{}, Limit: model.Quantities{}, OverQuotaWeight: model.Quantities{"gpu": amount.Amount(o.number(0, 2, "weight"))},
		PreemptMinRuntime: int64(o.number(-1, 1, "runtime")) * second, ReclaimMinRuntime: int64(o.number(-1, 1, "runtime")) * second,
	}
	if name != "root" {
		q.Parent = o.pick("parent", "root", "root", "root", "", "missing", "c")
	}
	if q.Parent == name {
		q.Parent = ""
	}
	for _, r := range []string{"gpu", "gpu.A", "cpu"} {
		if o.number(0, 3, "has quota") == 0 {
			q.Quota[r] = amount.Amount(o.number(0, 4, "quota")) * 1000
		}
		if o.number(0, 7, "has limit") == 0 {
			q.Limit[r] = amount.Amount(o.number(0, 4, "limit")) * 1000
		}
	}
	o.must(o.c.SetQueue(q))
}

func (o odd) workload(key string) {
	w := model.Workload{
		Key: key, Queue: o.pick("queue", "a", "b", "c", "a", "b", "c", "root", "", "missing"), Priority: int32(o.number(0, 2, "priority")),
		Preemptible: o.number(0, 4, "preemptible") > 0, MinMember: o.number(0, 3, "min"), CreatedAt: int64(o.number(0, 3, "age")),
		StartedAt: int64(o.number(0, 1, "started")) * 999 * second, StaleSince: int64(o.number(0, 1, "stale")) * 990 * second,
		StaleGrace: int64(o.number(-1, 1, "grace")), Recreated: o.number(0, 2, "recreated") > 0,
		PreemptionDelay: int64(o.number(0, 1, "delay")) * 2000 * second,
	}
	if o.number(0, 3, "constrained") == 0 {
		w.Topology = &model.TopologyConstraint{Topology: o.pick("named", "net", "net", "other"), Required: o.pick("required", "", "zone", "host", "row"), Preferred: o.pick("preferred", "", "zone", "host")}
	}
	groups := []string{""}
	if o.number(0, 2, "grouped") == 0 {
		w.SubGroups = []model.SubGroup{
			{Name: "x", MinMember: o.number(0, 2, "x")},
			{Name: "in", MinSubGroup: o.number(-1, 2, "in")},
			{Name: "y", Parent: "in", MinMember: o.number(0, 2, "y")},
			{Name: "z", Parent: "in", MinMember: o.number(0, 1, "z"), Topology: &model.TopologyConstraint{Topology: "net", Required: "zone"}},
		}
		w.MinSubGroup = o.number(-1, 2, "of all")
		groups = []string{"x", "y", "z", "stray"}
	}
	o.must(o.c.SetWorkload(w))
	for i := range o.number(1, 4, "pods") {
		o.pod(fmt.Sprintf("%s-%d", key, i), key, o.pick("group", groups...))
	}
}

func (o odd) pod(uid, workload, group string) {
	p := model.Pod{
		UID: uid, Name: uid, Workload: workload, SubGroup: group, State: model.PodState(max(0, o.number(-4, 7, "state"))),
		Node: fmt.Sprint("n", o.number(0, 4, "node")), Request: model.Quantities{"cpu": amount.Amount(o.number(0, 2, "cpu")) * 1000},
		MinIsolation: o.number(0, 8, "demands")/7*2 + 0, Labels: map[string]string{"app": o.pick("app", "u", "v")},
		NominatedNode: o.pick("nominated", "", "", "n1", "gone"), Leader: o.number(0, 4, "leader") == 0, HasOrder: o.number(0, 4, "ordered") == 0,
	}
	for i := range o.number(0, 2, "claims") {
		cl := model.GPUClaim{Name: fmt.Sprint("c", i), Kind: model.ClaimKind(o.number(0, 2, "kind")), Count: o.number(1, 2, "count")}
		cl.Milli, cl.MemoryMiB = int64(o.number(1, 4, "quarters"))*250, int64(o.number(1, 3, "memory"))*20_000
		p.Claims = append(p.Claims, cl)
	}
	if o.number(0, 5, "told") == 0 {
		p.Held = []model.HeldGPU{{
			Claim: o.pick("claim", "c0", "c1", "unknown"), GPU: o.pick("GPU", "0", "1", "9"),
			Milli: int64(o.number(0, 4, "quarters held")) * 250, MemoryMiB: int64(o.number(0, 4, "memory held")) * 20_000,
		}}
	}
	if len(p.Claims) == 0 && o.number(0, 4, "mig") == 0 {
		p.Request["mig-1g.5gb"] = 1
	}
	if o.number(0, 5, "affine") == 0 {
		p.Affinities = []model.PodAffinity{{MatchLabels: map[string]string{"app": "u"}, TopologyKey: o.pick("key", "zone", "host"), Anti: o.number(0, 1, "anti") == 0}}
	}
	if o.number(0, 7, "selective") == 0 {
		p.NodeTerms = [][]model.Requirement{{{Key: "zone", Op: model.OpIn, Values: []string{"x"}}}}
	}
	if o.number(0, 9, "excluded") == 0 {
		p.ExcludedNodes = []string{"n0"}
	}
	o.must(o.c.SetPod(p))
}

// Nothing that the model can say makes a decision crash, leave a trace, place a
// pod where it may not go, or forget to say why one waits.
func TestDecideTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawAnything(t)
		for range 3 {
			o.c.Settle()
			before := o.c.Digest()
			plan := cycle.Decide(o.c)
			if o.c.Digest() != before {
				t.Fatal("the decision left a trace")
			}
			o.check(plan)
			o.obey(plan)
			o.checkRoom(plan)
		}
	})
}

func (o odd) check(plan cycle.Plan) {
	for _, x := range plan.Placements {
		p := o.c.PodByUID(x.Pod)
		if v := fit.Static(o.c, p.Shape, o.c.NodeNamed(x.Node)); v != fit.Allowed {
			o.Fatalf("%s is placed on %s, which is %s", x.Pod, x.Node, v)
		}
		want := 0
		for _, cl := range p.Spec.Claims {
			want += cl.Count
		}
		if len(x.GPUs) != want {
			o.Fatalf("%s is placed with %d GPUs, it claims %d", x.Pod, len(x.GPUs), want)
		}
	}
	for _, x := range plan.Waits {
		if x.Reason.Message == "" || len(x.Pods) == 0 || x.Position < 1 {
			o.Fatalf("a wait says nothing: %+v", x)
		}
	}
}

// checkRoom: once a plan is obeyed, the nodes and GPUs that it placed pods on
// are booked with no more than they have.
func (o odd) checkRoom(plan cycle.Plan) {
	o.c.Settle()
	for _, x := range plan.Placements {
		n := o.c.NodeNamed(x.Node)
		for _, need := range o.c.PodByUID(x.Pod).Shape.Needs {
			if r := need.Resource; n.Booked[r] > n.Cap[r] {
				o.Fatalf("%s is booked with %d of %s, it has %d", x.Node, n.Booked[r], o.c.NodeResourceName(r), n.Cap[r])
			}
		}
		if slices.ContainsFunc(n.Pods, untold) {
			continue // these may have been given more than there is, and be given other GPUs now
		}
		for _, h := range x.GPUs {
			g := &n.GPUs[slices.IndexFunc(n.GPUs, func(g model.LiveGPU) bool { return g.ID == h.GPU })]
			if g.Booked.Milli > 1000 || g.Booked.MiB > g.MemoryMiB {
				o.Fatalf("GPU %s of %s is booked with %d thousandths and %d MiB of %d", h.GPU, x.Node, g.Booked.Milli, g.Booked.MiB, g.MemoryMiB)
			}
		}
	}
}

// untold pods are known to run on a node, but not on which of its GPUs.
func untold(p *model.LivePod) bool { return len(p.Spec.Claims) > 0 && len(p.Spec.Held) == 0 }

// obey does what a plan says, at once.
func (o odd) obey(plan cycle.Plan) {
	set := func(uid string, state model.PodState, node string, held []model.HeldGPU) {
		p, _ := o.c.Pod(uid)
		p.State, p.Node, p.Held = state, node, held
		o.must(o.c.SetPod(p))
	}
	for _, uid := range plan.Withdrawn {
		set(uid, model.Pending, "", nil)
	}
	for _, e := range plan.Evictions {
		p, _ := o.c.Pod(e.Pod)
		set(e.Pod, model.Releasing, p.Node, p.Held)
	}
	for _, x := range plan.Placements {
		state := model.Promised
		if len(x.Awaits) == 0 {
			state = model.Bound
		}
		set(x.Pod, state, x.Node, slices.Clone(x.GPUs))
	}
}
