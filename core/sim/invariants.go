// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// audit is the world's account, kept apart from the decision's: what every node
// and GPU carries, and what every queue has.
type audit struct {
	// now counts what is there; later counts what will be when all that is
	// releasing is gone and all that is promised is there.
	now, later map[string]amount.Amount
	queues     map[string]amount.Amount
}

func newAudit() *audit {
	return &audit{map[string]amount.Amount{}, map[string]amount.Amount{}, map[string]amount.Amount{}}
}

func (w *world) audit() *audit {
	a := newAudit()
	for _, wl := range w.workloads {
		for _, p := range wl.pods {
			if !scenario.Holds(p.state) {
				continue
			}
			if p.state != scenario.Pipelined {
				p.load(a.now)
			}
			if p.state != scenario.Releasing {
				p.load(a.later)
				w.charge(a, p)
			}
		}
	}
	return a
}

// load adds what the pod takes, by "node resource" and "node/gpu unit".
func (p *pod) load(into map[string]amount.Amount) {
	node := p.model.Node
	into[node+" "+model.ResourcePods]++
	for name, v := range p.model.Request {
		into[node+" "+name] = into[node+" "+name].Add(v)
	}
	for _, h := range p.model.Held {
		into[node+"/"+h.GPU+" milli"] += amount.Amount(h.Milli)
		into[node+"/"+h.GPU+" memory"] += amount.Amount(h.MemoryMiB)
	}
}

// charge adds a pod to its queue and all queues above it.
func (w *world) charge(a *audit, p *pod) {
	used := model.Quantities{}
	for name, v := range p.model.Request {
		used[name] = v
	}
	for _, h := range p.model.Held {
		used[model.ResourceGPU] += amount.Amount(h.Milli)
	}
	for name := p.workload.model.Queue; name != ""; {
		i := slices.IndexFunc(w.queues, func(q model.Queue) bool { return q.Name == name })
		if i < 0 {
			return
		}
		for resource, v := range used {
			a.queues[name+" limit "+resource] += v
			if !p.workload.model.Preemptible {
				a.queues[name+" quota "+resource] += v
			}
		}
		name = w.queues[i].Parent
	}
}

// violations lists the invariants that the plan, as applied, breaks. What was
// broken before and did not grow is not the plan's fault.
func (w *world) violations(before *audit, plan *cycle.Plan) []string {
	after := w.audit()
	var out []string
	grew := func(was, is map[string]amount.Amount, key string, cap amount.Amount) bool {
		return is[key] > cap && is[key] > was[key]
	}
	for _, n := range w.nodes {
		for key, most := range capacities(n) {
			if grew(before.now, after.now, key, most) {
				out = append(out, fmt.Sprintf("%s: %d in use of %d", key, after.now[key], most))
			}
			if grew(before.later, after.later, key, most) {
				out = append(out, fmt.Sprintf("%s: %d promised of %d", key, after.later[key], most))
			}
		}
	}
	for _, q := range w.queues {
		for resource, limit := range q.Limit {
			if key := q.Name + " limit " + resource; grew(before.queues, after.queues, key, limit) {
				out = append(out, fmt.Sprintf("queue %s is above its limit of %s: %d of %d", q.Name, resource, after.queues[key], limit))
			}
		}
		for resource, quota := range q.Quota {
			if key := q.Name + " quota " + resource; grew(before.queues, after.queues, key, quota) {
				out = append(out, fmt.Sprintf("queue %s has non-preemptible work above its quota of %s: %d of %d", q.Name, resource, after.queues[key], quota))
			}
		}
	}
	out = append(out, w.gangViolations(plan)...)
	out = append(out, w.evictionViolations(plan)...)
	slices.Sort(out)
	return out
}

func capacities(n *model.Node) map[string]amount.Amount {
	out := map[string]amount.Amount{}
	for name, v := range n.Allocatable {
		out[n.Name+" "+name] = v
	}
	for _, g := range n.GPUs {
		out[n.Name+"/"+g.ID+" milli"] = 1000
		out[n.Name+"/"+g.ID+" memory"] = amount.Amount(g.MemoryMiB)
	}
	return out
}

// gangViolations finds gangs of which the plan starts a part only.
func (w *world) gangViolations(plan *cycle.Plan) []string {
	starts := map[*workload]bool{}
	for _, x := range plan.Placements {
		if p := w.pods[x.Pod]; p != nil && len(x.Awaits) == 0 {
			starts[p.workload] = true
		}
	}
	var out []string
	for _, wl := range w.workloads {
		if !starts[wl] {
			continue
		}
		running := map[string]int{}
		for _, p := range wl.pods {
			if scenario.Holds(p.state) && p.state != scenario.Pipelined && p.state != scenario.Releasing {
				running[p.model.SubGroup]++
				running[""] += min(len(p.model.SubGroup), 1)
			}
		}
		if running[""] < wl.model.MinMember {
			out = append(out, fmt.Sprintf("workload %s starts with %d of %d members", wl.spec.Name, running[""], wl.model.MinMember))
		}
		if wl.model.MinSubGroup > 0 {
			continue
		}
		for _, g := range wl.spec.SubGroups {
			if running[g.Name] < g.MinMember && !w.optional(wl, g.Parent) {
				out = append(out, fmt.Sprintf("workload %s starts with %d of %d members of sub-group %s", wl.spec.Name, running[g.Name], g.MinMember, g.Name))
			}
		}
	}
	return out
}

// optional sub-groups lie below a set that needs only some of its children.
func (w *world) optional(wl *workload, set string) bool {
	for steps := 0; set != "" && steps <= len(wl.spec.SubGroupSets); steps++ {
		i := slices.IndexFunc(wl.spec.SubGroupSets, func(s scenario.SubGroupSet) bool { return s.Name == set })
		if i < 0 {
			return false
		}
		if wl.spec.SubGroupSets[i].MinSubGroup > 0 {
			return true
		}
		set = wl.spec.SubGroupSets[i].Parent
	}
	return false
}

// evictionViolations finds evictions that serve no placement, and pods evicted
// twice, or evicted and placed elsewhere.
func (w *world) evictionViolations(plan *cycle.Plan) []string {
	served := map[string]bool{}
	for _, x := range plan.Placements {
		served[x.Workload] = true
	}
	var out []string
	seen := map[string]bool{}
	for _, e := range plan.Evictions {
		switch {
		case seen[e.Pod]:
			out = append(out, fmt.Sprintf("pod %s is evicted twice", e.Pod))
		case e.Rule != cycle.RuleStaleGang && !served[e.For]:
			out = append(out, fmt.Sprintf("pod %s is evicted for %s, which gets no place", e.Pod, e.For))
		}
		seen[e.Pod] = true
	}
	return out
}
