// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// QueueView is a queue as it is in the API server, with its account.
type QueueView struct {
	Object *v1alpha1.Queue
	// Report is the account at the end of the last cycle; zero before the
	// first, and for a queue that the tree leaves out.
	Report   cycle.QueueReport
	Reported bool
	// Usage is the part of the cluster that the queue used, in millionths.
	Usage    model.Quantities
	Children []string
	// ParentMissing and ParentLoop say why the tree leaves the queue out.
	ParentMissing string
	ParentLoop    bool
	// RunningPods and RunningWorkloads hold capacity, those of queues below
	// included.
	RunningPods, RunningWorkloads int
	// WaitingPods of a queue and those below it that have no place.
	WaitingPods int
}

// Queues returns every queue by name.
func (l *Ledger) Queues() []QueueView {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	views := make(map[string]*QueueView, len(l.queues))
	for name, q := range l.queues {
		views[name] = &QueueView{Object: q, Usage: l.usage.parts[name]}
	}
	for _, r := range l.reports {
		if v := views[r.Name]; v != nil {
			v.Report, v.Reported = r, true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.queues)) {
		v := views[name]
		parent := v.Object.Spec.Parent
		if above := views[parent]; above != nil {
			above.Children = append(above.Children, name)
		}
		v.ParentMissing, v.ParentLoop = l.ancestry(name)
	}
	l.countRunning(views)
	out := make([]QueueView, 0, len(views))
	for _, name := range slices.Sorted(maps.Keys(views)) {
		out = append(out, *views[name])
	}
	return out
}

// ancestry follows the parents: the first that does not exist, or a loop.
func (l *Ledger) ancestry(name string) (missing string, loop bool) {
	at := l.queues[name]
	for range len(l.queues) + 1 {
		parent := at.Spec.Parent
		if parent == "" {
			return "", false
		}
		next := l.queues[parent]
		if next == nil {
			return parent, false
		}
		at = next
	}
	return "", true
}

// countRunning adds what holds capacity to each queue and those above it.
func (l *Ledger) countRunning(views map[string]*QueueView) {
	for _, w := range l.workloads {
		running, waiting := 0, 0
		for _, e := range w.pods {
			switch {
			case e.holds() || e.state == statePromised:
				running++
			case e.state == stateWaiting && !e.facts.deleting:
				waiting++
			}
		}
		at := w.spec.Queue
		for range len(views) {
			v := views[at]
			if v == nil {
				break
			}
			v.RunningPods += running
			v.WaitingPods += waiting
			if running > 0 {
				v.RunningWorkloads++
			}
			at = v.Object.Spec.Parent
		}
	}
}

// Backlog lists the queues that pods wait in, existing or not.
func (l *Ledger) Backlog() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := map[string]bool{}
	for _, e := range l.index.states[stateWaiting] {
		if e.workload != nil && !e.facts.deleting {
			if q := l.queueOf(e); q != "" {
				waiting[q] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(waiting))
}

// WaitView is a pod that waits, with what its condition says of that now.
type WaitView struct {
	Pod      PodRef
	Queue    string
	Workload string
	// Group is the name of the pod's PodGroup, "" for a single pod.
	Group    string
	Gated    bool
	Position int
	Reason   explain.Reason
	// ConditionReason and ConditionMessage are those of the pod's condition
	// that says why it waits, "" if it has none: PodScheduled while Gated, else
	// v1alpha1.PodConditionWaiting.
	ConditionReason, ConditionMessage string
	CreatedAt                         int64
}

// Waiting returns the pods that wait for a reason that is known, by queue,
// position and name.
func (l *Ledger) Waiting() []WaitView {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []WaitView
	for _, s := range []state{stateWaiting, statePromised} {
		for _, e := range l.index.states[s] {
			if v, ok := l.waitOf(e); ok {
				out = append(out, v)
			}
		}
	}
	slices.SortFunc(out, func(a, b WaitView) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Position, b.Position), cmp.Compare(a.Pod.String(), b.Pod.String()))
	})
	return out
}

// WaitOf returns why a pod waits; false if it does not, or for no known reason.
func (l *Ledger) WaitOf(uid string) (WaitView, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil {
		return WaitView{}, false
	}
	return l.waitOf(e)
}

func (l *Ledger) waitOf(e *entry) (WaitView, bool) {
	f := e.facts
	if e.state != stateWaiting && e.state != statePromised || f.deleting || e.workload == nil {
		return WaitView{}, false
	}
	v := l.view(e)
	if v.Reason == nil {
		return WaitView{}, false
	}
	told := f.waiting
	if f.gated {
		told = f.scheduled
	}
	return WaitView{
		Pod: f.ref, Queue: v.Queue, Workload: v.Workload, Group: f.group, Gated: f.gated,
		Position: e.position, Reason: *v.Reason, CreatedAt: f.pod.CreatedAt,
		ConditionReason: told.reason, ConditionMessage: told.message,
	}, true
}

// StartOf returns what has to be written to let the pod start; false if
// nothing has to, or no longer.
func (l *Ledger) StartOf(uid string) (Start, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil {
		return Start{}, false
	}
	return l.startOf(e)
}

// OpenPromises counts the pods that are promised or assumed.
func (l *Ledger) OpenPromises() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.index.states[statePromised]) + len(l.index.states[stateAssumed])
}
