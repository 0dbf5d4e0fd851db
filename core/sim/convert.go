// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// Defaults of the scenario format.
const (
	defaultGPUMemoryMiB = 100
	defaultNodeCPU      = 20_000_000
	defaultNodeMemory   = 20_000_000_000
	defaultNodePods     = 110
	defaultPodCPU       = 1000
	defaultPodMemory    = 1_000_000_000
	defaultPriority     = 100
	firstNonPreemptible = 100
	second              = 1_000_000_000
	defaultStarted      = 60 * second
	// start is the clock reading of second 0, far enough from zero for any age.
	start = 1_000_000_000 * second
)

// draLabel marks nodes whose GPUs are offered through resource slices: claims
// go there only, and pods that use the device plugin do not.
const draLabel = "fairslice.io/simulated-dra"

func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func nodeGPUMemory(n *scenario.Node) int64 { return or(n.GPUMemoryMiB, defaultGPUMemoryMiB) }

func toNode(n *scenario.Node) model.Node {
	out := model.Node{
		Name: n.Name, Ready: !n.Down, Unschedulable: n.Cordoned, Labels: map[string]string{},
		MIGStrategy: n.MIGStrategy, Isolation: n.Isolation,
		Allocatable: model.Quantities{
			model.ResourceCPU:    amount.Amount(or(n.CPUMilli, defaultNodeCPU)),
			model.ResourceMemory: amount.Amount(or(n.MemoryMiB, defaultNodeMemory)),
			model.ResourcePods:   amount.Amount(or(n.MaxPods, defaultNodePods)),
		},
	}
	maps.Copy(out.Labels, n.Labels)
	for name, count := range n.Other {
		out.Allocatable[name] = amount.Amount(count)
	}
	for profile, count := range n.MIGProfiles {
		out.Allocatable[model.ResourceMIGPrefix+profile] = amount.Amount(count)
	}
	for _, t := range n.Taints {
		out.Taints = append(out.Taints, model.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	if n.DRAGPUs > 0 {
		out.Labels[draLabel] = "true"
	}
	for _, g := range n.GPUList {
		out.GPUs = append(out.GPUs, model.GPU{ID: g.ID, Model: g.Model, MemoryMiB: g.MemoryMiB, Healthy: !g.Unhealthy, Shareable: !g.WholeOnly})
	}
	for i := range n.GPUs + n.DRAGPUs {
		out.GPUs = append(out.GPUs, model.GPU{
			ID: strconv.Itoa(i), Model: n.GPUModel, MemoryMiB: nodeGPUMemory(n),
			Healthy: true, Shareable: i < n.GPUs && n.MIGStrategy == "",
		})
	}
	return out
}

func toQueue(q *scenario.Queue, order int) model.Queue {
	out := model.Queue{
		Name: q.Name, Parent: q.Parent, Priority: or(q.Priority, defaultPriority),
		Quota: model.Quantities(q.Quota), Limit: model.Quantities(q.Limit),
		OverQuotaWeight:   model.Quantities(q.OverQuotaWeight),
		CreatedAt:         int64(order),
		PreemptMinRuntime: int64(or(q.PreemptMinRuntimeSeconds, -1)),
		ReclaimMinRuntime: int64(or(q.ReclaimMinRuntimeSeconds, -1)),
		Usage:             model.Quantities{},
	}
	if n := q.EvictionsPerMinute; n != nil {
		out.EvictionsPerMinute = *n
		if *n == 0 {
			out.EvictionsPerMinute = -1
		}
	}
	if d := q.PreemptionDelaySeconds; d != nil {
		out.PreemptionDelay = int64(*d)
		if *d == 0 {
			out.PreemptionDelay = -1
		}
	}
	for resource, share := range q.Usage {
		out.Usage[resource] = amount.Amount(share)
	}
	return out
}

func toTopology(t *scenario.TopologyConstraint) *model.TopologyConstraint {
	if t == nil {
		return nil
	}
	return &model.TopologyConstraint{Topology: t.Name, Required: t.Required, Preferred: t.Preferred}
}

func spreading(word string) model.Spreading {
	if word == "spread" {
		return model.Spread
	}
	return model.Pack
}

func workloadKey(w *scenario.Workload) string {
	return cmp.Or(w.Namespace, "default") + "/" + w.Name
}

// toWorkload converts all but the times, which the run keeps.
func toWorkload(w *scenario.Workload) model.Workload {
	out := model.Workload{
		Key: workloadKey(w), Queue: w.Queue, Priority: w.Priority,
		Preemptible: or(w.Preemptible, w.Priority < firstNonPreemptible),
		MinSubGroup: toMinSubGroup(w.MinSubGroup), Topology: toTopology(w.Topology),
		StaleGrace:      toStaleGrace(w.StaleGraceSeconds),
		PreemptionDelay: int64(w.PreemptionDelaySeconds),
		Recreated:       !w.NotRecreated,
		HasSpreading:    w.NodePlacement != "" || w.GPUSharing != "",
		NodeSpreading:   spreading(w.NodePlacement),
		GPUSpreading:    spreading(w.GPUSharing),
	}
	for _, s := range w.SubGroupSets {
		out.SubGroups = append(out.SubGroups, model.SubGroup{
			Name: s.Name, Parent: s.Parent, MinSubGroup: toMinSubGroup(s.MinSubGroup), Topology: toTopology(s.Topology),
		})
	}
	for _, g := range w.SubGroups {
		out.SubGroups = append(out.SubGroups, model.SubGroup{
			Name: g.Name, Parent: g.Parent, MinMember: g.MinMember, Topology: toTopology(g.Topology),
		})
	}
	if len(w.SubGroups) == 0 {
		out.MinMember = or(w.MinMember, len(w.Pods)+w.Replicas)
	}
	return out
}

// never is far enough away for any grace.
const never = 100 * 365 * 24 * 3600 * second

// toStaleGrace of a workload: negative is for ever, while the model means the
// cluster's by it.
func toStaleGrace(s *scenario.Seconds) int64 {
	switch {
	case s == nil:
		return -1
	case *s < 0:
		return never
	}
	return int64(*s)
}

func toMinSubGroup(n *int) int {
	if n != nil && *n == 0 {
		return model.NoSubGroup
	}
	return or(n, 0)
}

const claimName = "gpu"

// toClaims converts what a pod asks of GPUs.
func toClaims(r *scenario.Request) []model.GPUClaim {
	c := model.GPUClaim{Name: claimName, Count: max(r.GPUDevices, 1)}
	percent := r.GPUSlicePercent
	switch {
	case r.GPU >= 1000:
		c.Count = int(r.GPU / 1000)
	case r.GPU > 0:
		c.Kind, c.Milli = model.GPUSlice, int64(r.GPU)
	case percent > 100:
		c.Count = int(percent / 100)
	case percent == 100:
	case percent > 0:
		c.Kind, c.Milli = model.GPUSlice, percent*10
	case r.GPUMemoryMiB > 0:
		c.Kind, c.MemoryMiB = model.GPUMemory, r.GPUMemoryMiB
	default:
		return nil
	}
	return []model.GPUClaim{c}
}

func toQuantities(r *scenario.Request, bestEffort bool) model.Quantities {
	cpu, memory := int64(defaultPodCPU), scenario.Bytes(defaultPodMemory)
	if bestEffort {
		cpu, memory = 0, 0
	}
	out := model.Quantities{
		model.ResourceCPU:    amount.Amount(or(r.CPUMilli, cpu)),
		model.ResourceMemory: amount.Amount(or(r.MemoryMiB, memory)),
	}
	for profile, count := range r.MIG {
		out[model.ResourceMIGPrefix+profile] = amount.Amount(count)
	}
	for name, count := range r.Other {
		out[name] = amount.Amount(count)
	}
	return out
}

// toPod converts all but the state, which the run keeps.
func toPod(w *scenario.Workload, p *scenario.Pod) model.Pod {
	request := requestOf(w, p)
	out := model.Pod{
		UID: p.Name, Name: p.Name, Workload: workloadKey(w), SubGroup: p.SubGroup,
		Request: toQuantities(request, w.BestEffort), Claims: toClaims(request),
		Labels: p.Labels, MinIsolation: p.MinIsolation, NominatedNode: p.NominatedNode, Leader: p.Leader,
	}
	if p.OrderPriority != nil {
		out.Order, out.HasOrder = *p.OrderPriority, true
	}
	for _, t := range p.Tolerations {
		out.Tolerations = append(out.Tolerations, model.Toleration(t))
	}
	if a := p.PodAffinity; a != nil {
		out.Affinities = append(out.Affinities, model.PodAffinity{MatchLabels: a.MatchLabels, TopologyKey: a.TopologyKey})
	}
	if a := p.PodAntiAffinity; a != nil {
		out.Affinities = append(out.Affinities, model.PodAffinity{MatchLabels: a.MatchLabels, TopologyKey: a.TopologyKey, Anti: true})
	}
	for _, a := range p.Affinities {
		out.Affinities = append(out.Affinities, model.PodAffinity{MatchLabels: a.MatchLabels, TopologyKey: a.TopologyKey, Anti: a.Anti})
	}
	out.NodeTerms, out.ExcludedNodes = toNodeTerms(p), p.ExcludedNodes
	if len(p.Claims) > 0 {
		out.Claims = nil
	}
	for _, c := range p.Claims {
		out.Claims = append(out.Claims, toClaim(c))
	}
	return out
}

func toClaim(c scenario.Claim) model.GPUClaim {
	out := model.GPUClaim{Name: c.Name, Count: c.Count, Milli: c.Milli, MemoryMiB: c.MemoryMiB}
	switch {
	case c.Milli > 0:
		out.Kind = model.GPUSlice
	case c.MemoryMiB > 0:
		out.Kind = model.GPUMemory
	}
	return out
}

// affinityLabel may carry another name of a node, for NodeAffinity.
const affinityLabel = "node-name"

func toNodeTerms(p *scenario.Pod) [][]model.Requirement {
	if p.LegacyMIG {
		return [][]model.Requirement{{}}
	}
	var terms [][]model.Requirement
	for _, term := range p.NodeTerms {
		all := make([]model.Requirement, 0, len(term))
		for _, r := range term {
			all = append(all, model.Requirement{Key: r.Key, Op: model.Operator(r.Op), Values: r.Values})
		}
		terms = append(terms, all)
	}
	var selector []model.Requirement
	for _, key := range sortedKeys(p.NodeSelector) {
		selector = append(selector, model.Requirement{Key: key, Op: model.OpIn, Values: []string{p.NodeSelector[key]}})
	}
	if len(p.NodeAffinity) == 0 {
		if selector != nil {
			terms = append(terms, selector)
		}
		return terms
	}
	for _, key := range []string{model.FieldNodeName, affinityLabel} {
		terms = append(terms, append(slices.Clone(selector), model.Requirement{Key: key, Op: model.OpIn, Values: p.NodeAffinity}))
	}
	return terms
}

func requestOf(w *scenario.Workload, p *scenario.Pod) *scenario.Request {
	if p.Request != nil {
		return p.Request
	}
	return &w.Request
}

// toSettings gives the scenario format's defaults, which differ from those of
// an installation: no cap on moves, and MIG instances cost as in the scheduler that
// the format describes.
func toSettings(s *scenario.Scenario) model.Settings {
	out := model.DefaultSettings()
	out.MaxConsolidationVictims = -1
	out.MIGSlicesAsGPUs = true
	if r := s.Rounds; r != nil {
		if r.Mode == scenario.ModeFull {
			out.StaleGrace = 0
		}
		out.StaleGrace = int64(or(r.StaleGraceSeconds, scenario.Seconds(out.StaleGrace)))
	}
	if e := s.Engine; e != nil {
		if e.NodePlacement != nil {
			out.NodeSpreadingGPU, out.NodeSpreadingCPU = spreading(e.NodePlacement.GPU), spreading(e.NodePlacement.CPU)
		}
		out.GPUSpreading = spreading(e.GPUSharing)
		out.PreferSharedGPUNodes = or(e.PreferSharedGPUNodes, out.PreferSharedGPUNodes)
	}
	if x := s.Settings; x != nil {
		out.UsageFactor = int64(or(x.UsageFactor, scenario.MilliGPU(out.UsageFactor)))
		out.ReclaimMultiplier = int64(or(x.ReclaimMultiplier, scenario.MilliGPU(out.ReclaimMultiplier)))
		out.MaxConsolidationVictims = or(x.MaxConsolidationVictims, out.MaxConsolidationVictims)
		out.ReclaimMoves = or(x.ReclaimMoves, out.ReclaimMoves)
		out.MIGSlicesAsGPUs = or(x.MIGSlicesAsGPUs, out.MIGSlicesAsGPUs)
		out.ReclaimRuntimeByQueue = or(x.ReclaimRuntimeByQueue, out.ReclaimRuntimeByQueue)
		out.StaleGrace = int64(or(x.StaleGraceSeconds, scenario.Seconds(out.StaleGrace)))
		out.PreemptMinRuntime = int64(or(x.PreemptMinRuntimeSeconds, scenario.Seconds(out.PreemptMinRuntime)))
		out.ReclaimMinRuntime = int64(or(x.ReclaimMinRuntimeSeconds, scenario.Seconds(out.ReclaimMinRuntime)))
		out.PreemptionDelay = int64(x.PreemptionDelaySeconds)
		out.StepLimit, out.Seed = x.StepLimit, x.Seed
	}
	return out
}
