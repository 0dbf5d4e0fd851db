// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

func recordWorkload(w *model.Workload, now int64) scenario.Workload {
	out := scenario.Workload{
		Name: w.Key, Queue: w.Queue, Priority: w.Priority,
		Preemptible: new(w.Preemptible), MinSubGroup: recordMinSubGroup(w.MinSubGroup), Topology: recordTopology(w.Topology),
		AgeSeconds: new(scenario.Seconds(now - w.CreatedAt)), PreemptionDelaySeconds: scenario.Seconds(max(0, w.PreemptionDelay)),
		NotRecreated: !w.Recreated,
	}
	if len(w.SubGroups) == 0 {
		out.MinMember = new(w.MinMember)
	}
	inner := map[string]bool{}
	for _, g := range w.SubGroups {
		inner[g.Parent] = true
	}
	for _, g := range w.SubGroups {
		if inner[g.Name] {
			out.SubGroupSets = append(out.SubGroupSets, scenario.SubGroupSet{
				Name: g.Name, Parent: g.Parent,
				MinSubGroup: recordMinSubGroup(g.MinSubGroup), Topology: recordTopology(g.Topology),
			})
			continue
		}
		out.SubGroups = append(out.SubGroups, scenario.SubGroup{
			Name: g.Name, Parent: g.Parent,
			MinMember: g.MinMember, Topology: recordTopology(g.Topology),
		})
	}
	if w.StartedAt > 0 {
		out.StartedSecondsAgo = new(scenario.Seconds(now - w.StartedAt))
	}
	if w.StaleSince > 0 {
		out.StaleSeconds = new(scenario.Seconds(now - w.StaleSince))
	}
	if w.StaleGrace >= 0 {
		out.StaleGraceSeconds = new(scenario.Seconds(w.StaleGrace))
	}
	if w.HasSpreading {
		out.NodePlacement, out.GPUSharing = placementWord(w.NodeSpreading), placementWord(w.GPUSpreading)
	}
	return out
}

func recordMinSubGroup(n int) *int {
	if n == 0 {
		return nil
	}
	return new(max(n, 0))
}

func placementWord(s model.Spreading) string {
	if s == model.Spread {
		return "spread"
	}
	return "pack"
}

func recordTopology(t *model.TopologyConstraint) *scenario.TopologyConstraint {
	if t == nil {
		return nil
	}
	return &scenario.TopologyConstraint{Name: t.Topology, Required: t.Required, Preferred: t.Preferred}
}

// stateWords are the states as a scenario calls them. Bound pods run; pods stuck
// in deletion count as releasing.
var stateWords = map[model.PodState]string{
	model.Pending: scenario.Pending, model.Gated: scenario.Gated,
	model.Promised: scenario.Pipelined, model.Bound: scenario.Running, model.Releasing: scenario.Releasing,
	model.Stuck: scenario.Releasing, model.Succeeded: scenario.Succeeded, model.Failed: scenario.Failed,
}

func recordPod(p *model.Pod) scenario.Pod {
	out := scenario.Pod{
		State: stateWords[p.State], Node: p.Node, SubGroup: p.SubGroup,
		Request: recordRequest(p), Labels: p.Labels, MinIsolation: p.MinIsolation, NominatedNode: p.NominatedNode,
		Leader: p.Leader, ExcludedNodes: p.ExcludedNodes,
	}
	for _, h := range p.Held {
		out.Held = append(out.Held, scenario.HeldGPU(h))
	}
	if p.HasOrder {
		out.OrderPriority = new(p.Order)
	}
	for _, t := range p.Tolerations {
		out.Tolerations = append(out.Tolerations, scenario.Toleration(t))
	}
	for _, a := range p.Affinities {
		out.Affinities = append(out.Affinities, scenario.PodAffinity(a))
	}
	for _, c := range p.Claims {
		out.Claims = append(out.Claims, scenario.Claim{Name: c.Name, Count: c.Count, Milli: c.Milli, MemoryMiB: c.MemoryMiB})
	}
	for _, term := range p.NodeTerms {
		all := make([]scenario.Requirement, 0, len(term))
		for _, r := range term {
			all = append(all, scenario.Requirement{Key: r.Key, Op: string(r.Op), Values: r.Values})
		}
		out.NodeTerms = append(out.NodeTerms, all)
	}
	return out
}

// recordRequest leaves GPUs to the pod's claims.
func recordRequest(p *model.Pod) *scenario.Request {
	r := &scenario.Request{CPUMilli: new(int64), MemoryMiB: new(scenario.Bytes)}
	for name, v := range p.Request {
		profile, isMIG := strings.CutPrefix(name, model.ResourceMIGPrefix)
		switch {
		case name == model.ResourceCPU:
			*r.CPUMilli = int64(v)
		case name == model.ResourceMemory:
			*r.MemoryMiB = scenario.Bytes(v)
		case isMIG:
			r.MIG = put(r.MIG, profile, int64(v))
		default:
			r.Other = put(r.Other, name, int64(v))
		}
	}
	return r
}
