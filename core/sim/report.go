// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// Number is a decimal for people and JSON; accounts use integers.
type Number = json.Number

// Report is what a run found.
type Report struct {
	ID     string  `json:"id,omitempty"`
	Rounds []Round `json:"rounds"`
	// Differences from what the scenario expects, ties counted apart.
	Differences []Difference `json:"differences,omitempty"`
}

// Round is one cycle: what had happened, what was decided, and the state after
// it.
type Round struct {
	// AtSeconds is set in a timeline.
	AtSeconds Number   `json:"atSeconds,omitempty"`
	Happened  []string `json:"happened,omitempty"`
	Binds     int      `json:"binds"`
	Evictions int      `json:"evictions"`
	Pipelined int      `json:"pipelined"`

	Pods      map[string]PodReport  `json:"pods"`
	Nodes     map[string]NodeReport `json:"nodes"`
	Reasons   map[string]string     `json:"reasons"`
	Queues    []QueueReport         `json:"queues"`
	Decisions []Decision            `json:"decisions"`
	Waiting   []Waiting             `json:"waiting"`
	// Violations are broken invariants. There must be none.
	Violations []string `json:"violations,omitempty"`
}

// PodReport is a pod's state. GPUs are IDs on Node; AcceptedGPUs is the sum of
// what it was granted of them.
type PodReport struct {
	State        string   `json:"state"`
	Node         string   `json:"node,omitempty"`
	GPUs         []string `json:"gpus,omitempty"`
	AcceptedGPUs Number   `json:"acceptedGpus"`
}

// NodeReport counts whole GPUs. A shared one is not idle, and is releasing when
// all that it carries is.
type NodeReport struct {
	IdleGPUs      int `json:"idleGpus"`
	ReleasingGPUs int `json:"releasingGpus"`
}

// QueueReport is a queue's account at the end of the cycle.
type QueueReport struct {
	Name                    string                `json:"name"`
	Parent                  string                `json:"parent,omitempty"`
	FairShare               scenario.ResourceList `json:"fairShare"`
	Allocated               scenario.ResourceList `json:"allocated"`
	AllocatedNonPreemptible scenario.ResourceList `json:"allocatedNonPreemptible"`
	Requested               scenario.ResourceList `json:"requested"`
	PendingPods             int                   `json:"pendingPods"`
	PendingWorkloads        int                   `json:"pendingWorkloads"`
}

// Decision is one line of a plan. Kind is bind, promise, evict, move or
// withdraw.
type Decision struct {
	Kind   string   `json:"kind"`
	Pod    string   `json:"pod"`
	Node   string   `json:"node,omitempty"`
	GPUs   []string `json:"gpus,omitempty"`
	Awaits []string `json:"awaits,omitempty"`
	Rule   string   `json:"rule,omitempty"`
	For    string   `json:"for,omitempty"`
	Code   string   `json:"code,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

// Waiting is a workload without a place for some of its pods.
type Waiting struct {
	Workload string `json:"workload"`
	Queue    string `json:"queue"`
	Position int    `json:"position"`
	Pods     int    `json:"pods"`
	Code     string `json:"code"`
	Reason   string `json:"reason"`
}

// reportStates adds the state of every pod and node.
func (w *world) reportStates(r *Round) {
	on := map[string][]*pod{}
	for _, wl := range w.workloads {
		for _, p := range wl.pods {
			r.Pods[p.model.Name] = p.report()
			on[p.model.Node] = append(on[p.model.Node], p)
		}
	}
	for _, n := range w.nodes {
		r.Nodes[n.Name] = reportNode(n, on[n.Name])
	}
}

// report describes what a plan decided.
func (w *world) report(plan *cycle.Plan) Round {
	r := Round{
		Pods: map[string]PodReport{}, Nodes: map[string]NodeReport{}, Reasons: map[string]string{},
		Decisions: decisions(plan), Waiting: []Waiting{}, Queues: []QueueReport{},
	}
	for _, wait := range plan.Waits {
		name := w.names[wait.Workload]
		r.Reasons[name] = wait.Reason.Message
		r.Waiting = append(r.Waiting, Waiting{
			name, wait.Queue, wait.Position, len(wait.Pods),
			string(wait.Reason.Code), wait.Reason.Message,
		})
	}
	for _, q := range plan.Queues {
		r.Queues = append(r.Queues, QueueReport{
			q.Name, q.Parent, list(q.FairShare), list(q.Allocated),
			list(q.AllocatedNonPreemptible), list(q.Requested), q.PendingPods, q.PendingWorkloads,
		})
	}
	return r
}

func list(q model.Quantities) scenario.ResourceList {
	out := scenario.ResourceList{}
	maps.Copy(out, q)
	return out
}

func gpuIDs(held []model.HeldGPU) []string {
	var ids []string
	for _, h := range held {
		ids = append(ids, h.GPU)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (p *pod) report() PodReport {
	out := PodReport{State: p.state, AcceptedGPUs: "0"}
	if p.state == scenario.Pending || p.state == scenario.Gated {
		return out
	}
	out.Node = p.model.Node
	if !scenario.Holds(p.state) {
		return out
	}
	out.GPUs = gpuIDs(p.model.Held)
	var milli int64
	for _, h := range p.model.Held {
		milli += h.Milli
	}
	out.AcceptedGPUs = milliNumber(milli)
	return out
}

// reportNode counts by what is on the GPUs now; a promise takes nothing yet.
func reportNode(n *model.Node, pods []*pod) NodeReport {
	held, staying := map[string]bool{}, map[string]bool{}
	for _, p := range pods {
		if !scenario.Holds(p.state) || p.state == scenario.Pipelined {
			continue
		}
		for _, h := range p.model.Held {
			held[h.GPU] = true
			staying[h.GPU] = staying[h.GPU] || p.state != scenario.Releasing
		}
	}
	var out NodeReport
	for _, g := range n.GPUs {
		switch {
		case !held[g.ID]:
			out.IdleGPUs++
		case !staying[g.ID]:
			out.ReleasingGPUs++
		}
	}
	return out
}

func decisions(plan *cycle.Plan) []Decision {
	out := []Decision{}
	for _, p := range plan.Placements {
		d := Decision{Kind: "bind", Pod: p.Pod, Node: p.Node, GPUs: gpuIDs(p.GPUs)}
		switch {
		case p.Kept && len(p.Awaits) > 0:
			continue
		case len(p.Awaits) > 0:
			d.Kind, d.Awaits = "promise", p.Awaits
		}
		out = append(out, d)
	}
	for _, e := range plan.Evictions {
		d := Decision{
			Kind: "evict", Pod: e.Pod, Rule: string(e.Rule), For: e.For,
			Code: string(e.Reason.Code), Reason: e.Reason.Message,
		}
		if e.MoveTo != nil {
			d.Kind, d.Node, d.GPUs = "move", e.MoveTo.Node, gpuIDs(e.MoveTo.GPUs)
		}
		out = append(out, d)
	}
	for _, uid := range plan.Withdrawn {
		out = append(out, Decision{Kind: "withdraw", Pod: uid})
	}
	return out
}
