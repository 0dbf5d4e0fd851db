// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/model"
)

// plan reads the decisions off the state that the actions left.
func (d *decider) plan() Plan {
	var p Plan
	seen := map[*model.LivePod]bool{}
	d.c.Moved(d.start, func(pod *model.LivePod, _ model.Place) {
		seen[pod] = true
		d.report(&p, pod)
	})
	promised := slices.Clone(d.c.Members(model.SetPromised))
	slices.SortFunc(promised, func(a, b *model.LiveWorkload) int { return strings.Compare(a.Spec.Key, b.Spec.Key) })
	for _, w := range promised {
		for _, pod := range w.Pods {
			if !seen[pod] && d.home(pod).Phase == model.Awaiting {
				d.report(&p, pod)
			}
		}
	}
	d.awaits(&p)
	p.Waits = d.waits()
	for _, w := range d.c.Members(model.SetShort) {
		p.Short = append(p.Short, w.Spec.Key)
	}
	slices.Sort(p.Short)
	p.Queues = d.queueReports()
	return p
}

// report adds what became of one pod.
func (d *decider) report(p *Plan, pod *model.LivePod) {
	home := d.home(pod)
	had, has := home.Phase, pod.Phase
	switch {
	case had == model.Started && has == model.Leaving:
		p.Evictions = append(p.Evictions, d.eviction(pod, nil))
	case had == model.Started && has == model.Awaiting:
		to := d.placement(pod)
		p.Evictions = append(p.Evictions, d.eviction(pod, &to))
	case had == model.Awaiting && has.Active() && pod.Node == home.Node && slices.Equal(pod.Held, home.Held):
		kept := d.placement(pod)
		kept.Kept = true
		p.Placements = append(p.Placements, kept)
	case had == model.Awaiting:
		p.Withdrawn = append(p.Withdrawn, pod.Spec.UID)
		if has.Active() {
			p.Placements = append(p.Placements, d.placement(pod))
		}
	case had == model.Idle && has.Active():
		p.Placements = append(p.Placements, d.placement(pod))
	}
}

func (d *decider) eviction(pod *model.LivePod, to *Placement) Eviction {
	e := Eviction{Pod: pod.Spec.UID, Workload: pod.Workload.Spec.Key, MoveTo: to}
	if v := d.evicted[pod]; v != nil {
		e.Rule, e.Reason = v.rule, v.reason
		if v.by != nil {
			e.For = v.by.Spec.Key
		}
	}
	return e
}

func (d *decider) placement(pod *model.LivePod) Placement {
	p := Placement{Pod: pod.Spec.UID, Workload: pod.Workload.Spec.Key, Node: pod.Node.Spec.Name}
	for _, h := range pod.Held {
		p.GPUs = append(p.GPUs, model.HeldGPU{
			Claim: pod.Spec.Claims[h.Claim].Name, GPU: pod.Node.GPUs[h.GPU].ID, Milli: h.Milli, MemoryMiB: h.MiB,
		})
	}
	return p
}

// awaits names, for every placement that cannot start, the pods whose room the
// gang waits for.
func (d *decider) awaits(p *Plan) {
	leaving := d.leavingByNode(p)
	gangs := map[string][]string{}
	for i := range p.Placements {
		pod := d.c.PodByUID(p.Placements[i].Pod)
		if pod.Phase == model.Awaiting {
			key := p.Placements[i].Workload
			gangs[key] = append(gangs[key], blockers(pod, leaving)...)
		}
	}
	for key, uids := range gangs {
		slices.Sort(uids)
		gangs[key] = slices.Compact(uids)
	}
	for i := range p.Placements {
		if pod := d.c.PodByUID(p.Placements[i].Pod); pod.Phase == model.Awaiting {
			p.Placements[i].Awaits = gangs[p.Placements[i].Workload]
		}
	}
	for i := range p.Evictions {
		if to := p.Evictions[i].MoveTo; to != nil {
			to.Awaits = blockers(d.c.PodByUID(to.Pod), leaving)
			slices.Sort(to.Awaits)
		}
	}
}

// departure is room that a pod is about to give back.
type departure struct {
	pod  *model.LivePod
	held []model.GPUHold
}

func (d *decider) leavingByNode(p *Plan) map[*model.LiveNode][]departure {
	out := map[*model.LiveNode][]departure{}
	for i := range p.Placements {
		n := d.c.NodeNamed(p.Placements[i].Node)
		if _, done := out[n]; done || len(p.Placements[i].Awaits) > 0 {
			continue
		}
		out[n] = nil
	}
	for i := range p.Evictions {
		if to := p.Evictions[i].MoveTo; to != nil {
			out[d.c.NodeNamed(to.Node)] = nil
		}
	}
	for n := range out {
		for _, pod := range n.Pods {
			switch {
			case pod.Phase == model.Leaving && pod.Node == n:
				out[n] = append(out[n], departure{pod, pod.Held})
			case pod.From != nil && pod.From.Node == n:
				out[n] = append(out[n], departure{pod, pod.From.Held})
			}
		}
	}
	return out
}

// blockers are the leaving pods on a pod's node without whose room not all that
// is booked there can start: those on its GPUs, and, where the node is short of
// something else, all of them. All bookings count, as several may be crowded out
// by a room that any one of them would fit beside.
func blockers(pod *model.LivePod, leaving map[*model.LiveNode][]departure) []string {
	var others []departure
	for _, dep := range leaving[pod.Node] {
		if dep.pod != pod {
			others = append(others, dep)
		}
	}
	short := lacksRoom(pod, others)
	crowded := crowdedGPUs(pod, others)
	var uids []string
	for _, dep := range others {
		if short || slices.ContainsFunc(dep.held, func(h model.GPUHold) bool { return slices.Contains(crowded, h.GPU) }) {
			uids = append(uids, dep.pod.Spec.UID)
		}
	}
	return uids
}

// lacksRoom says whether a pod's node is short of something besides GPUs while
// the leaving pods are still there.
func lacksRoom(pod *model.LivePod, leaving []departure) bool {
	n := pod.Node
	for _, need := range pod.Shape.Needs {
		taken := n.Booked[need.Resource]
		for _, dep := range leaving {
			for _, x := range dep.pod.Shape.Needs {
				if x.Resource == need.Resource {
					taken += x.Amount
				}
			}
		}
		if taken > n.Cap[need.Resource] {
			return true
		}
	}
	return false
}

// crowdedGPUs are those of a pod's GPUs that cannot serve all bookings while what
// is leaving them is still there.
func crowdedGPUs(pod *model.LivePod, leaving []departure) []int32 {
	var out []int32
	for _, own := range pod.Held {
		g := &pod.Node.GPUs[own.GPU]
		milli, mib, sharers := g.Booked.Milli, g.Booked.MiB, int(g.Booked.Pods)
		for _, dep := range leaving {
			for _, h := range dep.held {
				if h.GPU == own.GPU {
					milli, mib, sharers = milli+h.Milli, mib+h.MiB, sharers+1
				}
			}
		}
		if milli > 1000 || mib > g.MemoryMiB && g.MemoryMiB > 0 || sharers > g.MaxSharers && g.MaxSharers > 0 {
			out = append(out, own.GPU)
		}
	}
	return out
}

func (d *decider) queueReports() []QueueReport {
	reports := make([]QueueReport, len(d.t.Queues))
	for i := range d.t.Queues {
		q := &d.t.Queues[i]
		r := &reports[i]
		r.Name = q.Name
		if q.Parent != model.NoQueue {
			r.Parent = d.t.Queues[q.Parent].Name
		}
		r.FairShare, r.Allocated = d.t.Quantities(q.FairShare), d.t.Quantities(q.Allocated)
		r.AllocatedNonPreemptible, r.Requested = d.t.Quantities(q.AllocatedNonPreemptible), d.t.Quantities(q.Request)
	}
	for _, w := range d.c.Members(model.SetBacklog) {
		pods := 0
		for _, p := range w.Pods {
			if p.Phase == model.Idle && p.Spec.State == model.Pending {
				pods++
			}
		}
		if pods == 0 {
			continue
		}
		for q := w.Queue; q != model.NoQueue; q = d.t.Queues[q].Parent {
			reports[q].PendingPods += pods
			reports[q].PendingWorkloads++
		}
	}
	return reports
}
