// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// account is the world's own, kept apart from the decision's: what every node and
// GPU carries, and what every queue has, by key such as "node now cpu". "now"
// counts what is there; "later" what will be when all that is releasing is gone
// and all that is promised is there.
type account struct {
	used map[string]amount.Amount
	// most is what a key may reach; a key without one is not bounded.
	most map[string]amount.Amount
	// before is what keys held that changed since the last look.
	before map[string]amount.Amount
}

func newAccount() *account {
	return &account{map[string]amount.Amount{}, map[string]amount.Amount{}, map[string]amount.Amount{}}
}

func (a *account) add(key string, v amount.Amount) {
	if _, changed := a.before[key]; !changed {
		a.before[key] = a.used[key]
	}
	a.used[key] += v
}

// booked is what a pod counts as in the account.
type booked struct {
	state, node string
	held        []model.HeldGPU
}

// book brings the account up to date with a pod.
func (w *world) book(p *pod) {
	w.count(p, -1)
	p.booked = booked{p.state, p.model.Node, p.model.Held}
	w.count(p, 1)
}

func (w *world) count(p *pod, sign amount.Amount) {
	b := &p.booked
	if !scenario.Holds(b.state) {
		return
	}
	if b.state != scenario.Pipelined {
		w.load(p, b.node+" now ", sign)
	}
	if b.state != scenario.Releasing {
		w.load(p, b.node+" later ", sign)
		w.charge(p, sign)
	}
}

func (w *world) load(p *pod, prefix string, sign amount.Amount) {
	w.account.add(prefix+model.ResourcePods, sign)
	for name, v := range p.model.Request {
		w.account.add(prefix+name, sign*v)
	}
	for _, h := range p.booked.held {
		w.account.add(prefix+"GPU "+h.GPU+" milli", sign*amount.Amount(h.Milli))
		w.account.add(prefix+"GPU "+h.GPU+" memory", sign*amount.Amount(h.MemoryMiB))
	}
}

// charge counts a pod for its queue and all queues above it.
func (w *world) charge(p *pod, sign amount.Amount) {
	used := model.Quantities{}
	maps.Copy(used, p.model.Request)
	for _, h := range p.booked.held {
		used[model.ResourceGPU] += amount.Amount(h.Milli)
	}
	for steps, name := 0, p.workload.model.Queue; name != "" && steps <= len(w.queues); steps++ {
		i := slices.IndexFunc(w.queues, func(q model.Queue) bool { return q.Name == name })
		if i < 0 {
			return
		}
		for resource, v := range used {
			w.account.add("queue "+name+" limit of "+resource, sign*v)
			if !p.workload.model.Preemptible {
				w.account.add("queue "+name+" quota for non-preemptible work of "+resource, sign*v)
			}
		}
		name = w.queues[i].Parent
	}
}

// recount starts the account afresh: queues or nodes are others now.
func (w *world) recount() {
	w.account = newAccount()
	for _, wl := range w.workloads {
		for _, p := range wl.pods {
			p.booked = booked{}
			w.book(p)
		}
	}
	for _, n := range w.nodes {
		for _, when := range []string{" now ", " later "} {
			for name, v := range n.Allocatable {
				w.account.most[n.Name+when+name] = v
			}
			for _, g := range n.GPUs {
				w.account.most[n.Name+when+"GPU "+g.ID+" milli"] = 1000
				w.account.most[n.Name+when+"GPU "+g.ID+" memory"] = amount.Amount(g.MemoryMiB)
			}
		}
	}
	for _, q := range w.queues {
		for resource, limit := range q.Limit {
			w.account.most["queue "+q.Name+" limit of "+resource] = limit
		}
		for resource, quota := range q.Quota {
			w.account.most["queue "+q.Name+" quota for non-preemptible work of "+resource] = quota
		}
	}
	clear(w.account.before)
}

// violations lists the invariants that the plan, as applied, breaks. What was
// broken before and did not grow is not the plan's fault.
func (w *world) violations(plan *cycle.Plan) []string {
	var out []string
	for key, before := range w.account.before {
		used := w.account.used[key]
		if most, bounded := w.account.most[key]; bounded && used > most && used > before {
			out = append(out, fmt.Sprintf("%s: %d of %d", key, used, most))
		}
	}
	out = append(out, w.gangViolations(plan)...)
	out = append(out, w.evictionViolations(plan)...)
	slices.Sort(out)
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
	moves := map[string]bool{}
	for _, e := range plan.Evictions {
		moves[e.Pod] = e.MoveTo != nil
	}
	var out []string
	for _, wl := range w.workloads {
		if !starts[wl] {
			continue
		}
		present := map[string]int{}
		for _, p := range wl.pods {
			// A member that ended well is not a missing one, nor is one on the move.
			if p.state == scenario.Succeeded || p.target != nil || moves[p.model.UID] || scenario.Holds(p.state) && p.state != scenario.Pipelined && p.state != scenario.Releasing {
				present[p.model.SubGroup]++
				present[""] += min(len(p.model.SubGroup), 1)
			}
		}
		if present[""] < wl.model.MinMember {
			out = append(out, fmt.Sprintf("workload %s starts with %d of %d members", wl.spec.Name, present[""], wl.model.MinMember))
		}
		if wl.model.MinSubGroup != 0 {
			continue
		}
		for _, g := range wl.spec.SubGroups {
			if present[g.Name] < g.MinMember && !w.optional(wl, g.Parent) {
				out = append(out, fmt.Sprintf("workload %s starts with %d of %d members of sub-group %s", wl.spec.Name, present[g.Name], g.MinMember, g.Name))
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
		if wl.spec.SubGroupSets[i].MinSubGroup != nil {
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
