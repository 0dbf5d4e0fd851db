// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// Pending is the waiting line of a queue and of the queues below it, as the last
// cycle left it.
type Pending struct {
	Queue string `json:"queue"`
	// Exists is false for a queue that pods name and that nobody made.
	Exists bool `json:"exists"`
	// Cycle counts cycles; two lists of one cycle have the same order.
	Cycle uint64 `json:"cycle"`
	// Total is the number of workloads that wait, also when fewer are listed.
	Total     int               `json:"total"`
	Workloads []PendingWorkload `json:"workloads"`
}

// PendingWorkload is a gang or a single pod that waits, or the pods of a started
// gang that still do.
type PendingWorkload struct {
	// Position in its leaf queue, from 1; 0 for a workload that is not in the
	// line, because the plan cannot place it whatever is free.
	Position  int    `json:"position,omitempty"`
	Queue     string `json:"queue"`
	Namespace string `json:"namespace"`
	// Workload names the gang, or the pod that stands alone.
	Workload string `json:"workload"`
	Gang     bool   `json:"gang,omitempty"`
	Priority int32  `json:"priority"`
	// Pods wait, by name; PodsPlaced have a place and PodsMissing do not exist,
	// though the workload's minimum needs them.
	Pods        []string `json:"pods"`
	PodsPlaced  int      `json:"podsPlaced"`
	PodsMissing int      `json:"podsMissing"`
	// Since is the creation of the pod that has waited longest.
	Since time.Time `json:"since"`
	// Asks is what the waiting pods would be charged to their queue.
	Asks   map[string]resource.Quantity `json:"asks"`
	Reason explain.Reason               `json:"reason"`
}

// Pending lists what waits in a queue and below it, by queue and position; those
// without a position come last. False if the queue neither exists nor is named
// by a pod that waits.
func (l *Ledger) Pending(queue string) (Pending, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	l.cluster.Settle()
	out := Pending{Queue: queue, Exists: l.queues[queue] != nil, Cycle: l.cycles, Workloads: []PendingWorkload{}}
	named := false
	waiting := map[string][]*entry{}
	for _, s := range []state{stateWaiting, statePromised} {
		for _, e := range l.index.states[s] {
			v, waits := l.waitOf(e)
			if waits && l.isBelow(v.Queue, queue) {
				named = named || v.Queue == queue
				waiting[v.Workload] = append(waiting[v.Workload], e)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(waiting)) {
		out.Workloads = append(out.Workloads, l.pendingWorkload(waiting[key]))
	}
	slices.SortStableFunc(out.Workloads, func(a, b PendingWorkload) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), compareBool(a.Position == 0, b.Position == 0),
			cmp.Compare(a.Position, b.Position), a.Since.Compare(b.Since))
	})
	out.Total = len(out.Workloads)
	return out, out.Exists || named
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// isBelow says whether a queue is another one or under it.
func (l *Ledger) isBelow(queue, above string) bool {
	for range len(l.queues) + 1 {
		if queue == above {
			return true
		}
		q := l.queues[queue]
		if q == nil || q.Spec.Parent == "" {
			return false
		}
		queue = q.Spec.Parent
	}
	return false
}

// pendingWorkload describes a workload by its pods that wait. What has no place
// at all counts before what only waits for its room.
func (l *Ledger) pendingWorkload(waiting []*entry) PendingWorkload {
	slices.SortFunc(waiting, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.facts.ref.Name, b.facts.ref.Name))
	})
	first := waiting[0]
	view, _ := l.waitOf(first)
	w := PendingWorkload{
		Position: view.Position, Queue: view.Queue, Namespace: first.facts.ref.Namespace, Workload: first.facts.ref.Name,
		Gang: first.workload.isGroup, Priority: first.workload.spec.Priority, Reason: view.Reason,
		Asks: map[string]resource.Quantity{},
	}
	if w.Gang {
		w.Workload = first.workload.key[len(w.Namespace)+1:]
	}
	if l.ownReason(first) != nil {
		w.Position = 0
	}
	since := int64(0)
	asks := model.Quantities{}
	for _, e := range waiting {
		w.Pods = append(w.Pods, e.facts.ref.Name)
		earliest(&since, e.facts.pod.CreatedAt)
		l.addAsked(asks, e)
	}
	w.PodsPlaced, w.PodsMissing = l.elsewhere(first.workload, len(waiting))
	w.Since = time.Unix(0, since).UTC()
	for name, a := range asks {
		if key, q, finite := l.config.ResourceQuantity(name, a); finite {
			w.Asks[key] = q
		}
	}
	return w
}

// elsewhere counts a workload's pods that have a place, beside those that wait,
// and those that its minimum needs and that do not exist.
func (l *Ledger) elsewhere(w *workload, waiting int) (placed, missing int) {
	exist, idle := 0, 0
	for _, e := range w.pods {
		switch {
		case e.state == stateReleased || e.facts.deleting:
			continue
		case e.state == stateWaiting:
			idle++
		}
		exist++
	}
	gang := l.gang(w)
	return exist - max(idle, waiting), max(0, gang.Minimum-gang.Succeeded-exist)
}

// addAsked adds what a pod would be charged to its queue.
func (l *Ledger) addAsked(asks model.Quantities, e *entry) {
	p := l.cluster.PodByUID(e.facts.ref.UID)
	if p == nil || p.Shape == nil {
		return
	}
	tree := l.cluster.Accounts()
	for i, a := range l.cluster.Estimate(p.Shape) {
		if a > 0 {
			asks[tree.Resources[i]] = asks[tree.Resources[i]].Add(a)
		}
	}
}
