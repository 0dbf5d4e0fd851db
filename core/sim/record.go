// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// Record writes a cluster as a scenario, so that what happens on a live cluster
// can be replayed and asked about. Workloads are named "<namespace>/<name>", pods
// "<namespace>/<name>" and their UID where that comes twice. Pods that belong to
// no known workload are left out. Times are ages, in nanoseconds exactly.
func Record(c *model.Cluster) *scenario.Scenario {
	s := &scenario.Scenario{Settings: recordSettings(c.Settings())}
	c.Nodes(func(n model.Node) bool {
		s.Nodes = append(s.Nodes, recordNode(&n))
		return true
	})
	c.Queues(func(q model.Queue) bool {
		s.Queues = append(s.Queues, recordQueue(&q))
		return true
	})
	rankQueues(c, s.Queues)
	topologies, pods := map[string]bool{}, map[string]string{}
	taken := map[string]bool{}
	c.Workloads(func(w model.Workload) bool {
		out := recordWorkload(&w, c.Now())
		c.PodsOf(w.Key, func(p model.Pod) bool {
			pod := recordPod(&p)
			pod.Name = podName(&w, &p, taken)
			pods[p.UID] = pod.Name
			out.Pods = append(out.Pods, pod)
			return true
		})
		s.Workloads = append(s.Workloads, out)
		for _, name := range topologiesOf(&w) {
			topologies[name] = true
		}
		return true
	})
	for _, name := range sortedKeys(topologies) {
		if t, known := c.Topology(name); known {
			s.Topologies = append(s.Topologies, scenario.Topology{Name: name, Levels: t.Levels})
		}
	}
	s.Budgets = recordBudgets(c.Budgets(), pods)
	return s
}

func podName(w *model.Workload, p *model.Pod, taken map[string]bool) string {
	namespace, _, _ := strings.Cut(w.Key, "/")
	name := namespace + "/" + p.Name
	if taken[name] {
		name += " " + p.UID
	}
	taken[name] = true
	return name
}

func topologiesOf(w *model.Workload) []string {
	var out []string
	if w.Topology != nil {
		out = append(out, w.Topology.Topology)
	}
	for _, g := range w.SubGroups {
		if g.Topology != nil {
			out = append(out, g.Topology.Topology)
		}
	}
	return out
}

func recordBudgets(budgets []model.DisruptionBudget, pods map[string]string) []scenario.Budget {
	var out []scenario.Budget
	for _, b := range budgets {
		budget := scenario.Budget{Name: b.Key, Allowed: b.Allowed, Pods: []string{}}
		for _, uid := range b.Pods {
			if name, known := pods[uid]; known {
				budget.Pods = append(budget.Pods, name)
			}
		}
		out = append(out, budget)
	}
	return out
}

func recordSettings(m model.Settings) *scenario.Settings {
	return &scenario.Settings{
		UsageFactor:              new(scenario.MilliGPU(m.UsageFactor)),
		ReclaimMultiplier:        new(scenario.MilliGPU(m.ReclaimMultiplier)),
		MaxConsolidationVictims:  new(m.MaxConsolidationVictims),
		ReclaimMoves:             new(m.ReclaimMoves),
		ReclaimRuntimeByQueue:    new(m.ReclaimRuntimeByQueue),
		MIGSlicesAsGPUs:          new(m.MIGSlicesAsGPUs),
		StaleGraceSeconds:        new(scenario.Seconds(m.StaleGrace)),
		PreemptMinRuntimeSeconds: new(scenario.Seconds(m.PreemptMinRuntime)),
		ReclaimMinRuntimeSeconds: new(scenario.Seconds(m.ReclaimMinRuntime)),
		PreemptionDelaySeconds:   scenario.Seconds(m.PreemptionDelay),
		StepLimit:                m.StepLimit,
		Seed:                     m.Seed,
	}
}

func recordNode(n *model.Node) scenario.Node {
	out := scenario.Node{
		Name: n.Name, Labels: n.Labels, Down: !n.Ready, Cordoned: n.Unschedulable,
		MIGStrategy: n.MIGStrategy, Isolation: n.Isolation, CPUMilli: new(int64), MemoryMiB: new(scenario.Bytes), MaxPods: new(int64),
	}
	for _, g := range n.GPUs {
		out.GPUList = append(out.GPUList, scenario.GPU{ID: g.ID, Model: g.Model, MemoryMiB: g.MemoryMiB, Unhealthy: !g.Healthy, WholeOnly: !g.Shareable})
	}
	for _, t := range n.Taints {
		out.Taints = append(out.Taints, scenario.Taint(t))
	}
	for name, v := range n.Allocatable {
		profile, isMIG := strings.CutPrefix(name, model.ResourceMIGPrefix)
		switch {
		case name == model.ResourceCPU:
			*out.CPUMilli = int64(v)
		case name == model.ResourceMemory:
			*out.MemoryMiB = scenario.Bytes(v)
		case name == model.ResourcePods:
			*out.MaxPods = int64(v)
		case isMIG:
			out.MIGProfiles = put(out.MIGProfiles, profile, int64(v))
		default:
			out.Other = put(out.Other, name, int64(v))
		}
	}
	return out
}

func put(m map[string]int64, key string, v int64) map[string]int64 {
	if m == nil {
		m = map[string]int64{}
	}
	m[key] = v
	return m
}

func recordQueue(q *model.Queue) scenario.Queue {
	out := scenario.Queue{
		Name: q.Name, Parent: q.Parent, Priority: new(q.Priority),
		Quota: list(q.Quota), Limit: list(q.Limit), OverQuotaWeight: list(q.OverQuotaWeight),
	}
	if q.PreemptMinRuntime >= 0 {
		out.PreemptMinRuntimeSeconds = new(scenario.Seconds(q.PreemptMinRuntime))
	}
	if q.ReclaimMinRuntime >= 0 {
		out.ReclaimMinRuntimeSeconds = new(scenario.Seconds(q.ReclaimMinRuntime))
	}
	if n := q.EvictionsPerMinute; n != 0 {
		out.EvictionsPerMinute = new(max(0, n))
	}
	if d := q.PreemptionDelay; d != 0 {
		out.PreemptionDelaySeconds = new(scenario.Seconds(max(0, d)))
	}
	for resource, share := range q.Usage {
		if out.Usage == nil {
			out.Usage = map[string]scenario.Millionths{}
		}
		out.Usage[resource] = scenario.Millionths(share)
	}
	return out
}

// rankQueues gives each queue its rank by age, as the format has no times.
func rankQueues(c *model.Cluster, queues []scenario.Queue) {
	created := func(name string) int64 { q, _ := c.Queue(name); return q.CreatedAt }
	var times []int64
	for i := range queues {
		times = append(times, created(queues[i].Name))
	}
	slices.Sort(times)
	times = slices.Compact(times)
	for i := range queues {
		rank, _ := slices.BinarySearch(times, created(queues[i].Name))
		queues[i].CreationOrder = rank + 1
	}
}
