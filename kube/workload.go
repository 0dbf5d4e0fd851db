// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/model"
)

// workload is a PodGroup or a derived gang with its pods, or a single pod.
type workload struct {
	key string
	// group is nil for a single pod, for a derived gang, and for a PodGroup that
	// pods name but that does not exist.
	group   *v1alpha1.PodGroup
	isGroup bool
	pods    map[string]*entry // by UID
	spec    model.Workload    // as last given to the cluster
	fed     bool
	life
	// remembered is true once the gang's status was read.
	remembered bool
}

// groupKey and podKey name workloads. A PodGroup and a pod of the same name
// are two workloads.
func groupKey(namespace, name string) string { return namespace + "/" + name }
func podKey(ref PodRef) string               { return ref.Namespace + "/pod/" + ref.Name }

func (f *podFacts) workloadKey() string {
	if f.group != "" {
		return groupKey(f.ref.Namespace, f.group)
	}
	if g := f.derived(); g != nil {
		return g.Key
	}
	return podKey(f.ref)
}

// sorted returns the workload's pods in UID order.
func (w *workload) sorted() []*entry {
	return slices.SortedFunc(maps.Values(w.pods), func(a, b *entry) int {
		switch {
		case a.facts.ref.UID < b.facts.ref.UID:
			return -1
		case a.facts.ref.UID > b.facts.ref.UID:
			return 1
		}
		return 0
	})
}

// build translates the workload as it is now.
func (l *Ledger) build(w *workload) model.Workload {
	out := model.Workload{
		Key: w.key, MinMember: 1, StaleGrace: -1, Recreated: len(w.pods) > 0,
		SparedUntil: l.sparedUntil(w),
	}
	l.buildFromPods(w, &out)
	out.Preemptible = out.Priority < l.config.PreemptibleBelow
	if p := w.preemptible(); p != nil {
		out.Preemptible = *p
	}
	if w.group != nil {
		l.apply(&w.group.Spec, &out)
		out.CreatedAt = w.group.CreationTimestamp.UnixNano()
	} else if g := w.derived(); g != nil {
		l.buildDerived(w, g, &out)
	}
	w.applyLife(&out)
	return out
}

// buildFromPods fills in what follows from the pods: the first queue in UID
// order, the highest priority, the earliest times.
func (l *Ledger) buildFromPods(w *workload, out *model.Workload) {
	for i, e := range w.sorted() {
		f := e.facts
		if out.Queue == "" {
			out.Queue = l.queueOfPod(f)
		}
		if i == 0 || f.priority > out.Priority {
			out.Priority = f.priority
		}
		out.Recreated = out.Recreated && f.recreated && (f.member == nil || !f.member.NotRecreated)
		earliest(&out.CreatedAt, f.pod.CreatedAt)
		if e.state == stateBound && !f.terminal() {
			earliest(&out.StartedAt, f.startedAt)
		}
		if e.state == stateWaiting && !f.terminal() && !f.deleting {
			earliest(&out.PendingSince, f.pod.CreatedAt)
		}
		l.choose(f, out)
	}
}

// choose applies a pod's own choice of pack or spread over the settings.
func (l *Ledger) choose(f *podFacts, out *model.Workload) {
	if out.HasSpreading || f.spreading.node == nil && f.spreading.gpu == nil {
		return
	}
	s := l.config.Settings
	out.HasSpreading, out.NodeSpreading, out.GPUSpreading = true, s.NodeSpreadingCPU, s.GPUSpreading
	if f.asksGPU {
		out.NodeSpreading = s.NodeSpreadingGPU
	}
	if f.spreading.node != nil {
		out.NodeSpreading = *f.spreading.node
	}
	if f.spreading.gpu != nil {
		out.GPUSpreading = *f.spreading.gpu
	}
}

func earliest(into *int64, t int64) {
	if t > 0 && (*into == 0 || t < *into) {
		*into = t
	}
}

// preemptible is what the pods' labels say, the first in UID order.
func (w *workload) preemptible() *bool {
	for _, e := range w.sorted() {
		if e.facts.preemptible != nil {
			return e.facts.preemptible
		}
	}
	return nil
}

// queueOfPod is the pod's own label, else that of its owners, else that of its
// namespace (which does not reach the pods of a DaemonSet: they belong to the
// nodes), else the default queue if it asks for GPU or waits at our gate, unless
// somebody else bound it, else none.
func (l *Ledger) queueOfPod(f *podFacts) string {
	switch {
	case f.queueLabel != "":
		return f.queueLabel
	case f.derived() != nil && f.derived().Spec.Queue != "":
		return f.derived().Spec.Queue
	case l.namespaces[f.ref.Namespace] != "" && !f.daemon:
		return l.namespaces[f.ref.Namespace]
	case f.asksGPU && !f.foreign() || f.gated:
		return l.config.DefaultQueue
	}
	return ""
}

// foreign pods hold GPUs that we did not assign: they take up room, and no queue
// that they did not ask for pays for it or may evict them.
func (f *podFacts) foreign() bool {
	return f.node != "" && f.assignment == "" && len(f.pod.Claims) > 0
}

// defaultClassPriority is that of workloads that name a priority class which
// does not exist, in a cluster without a default class.
const defaultClassPriority = 50

func (l *Ledger) classPriority(name string) int32 {
	if value, ok := l.priorities[name]; ok {
		return value
	}
	if l.defaultPriority != nil {
		return *l.defaultPriority
	}
	return defaultClassPriority
}

// minimum is how many members must run together, over all sub-groups: of an
// inner one, the smallest that its required children add up to.
func minimum(w model.Workload) int {
	if len(w.SubGroups) == 0 {
		return max(w.MinMember, 0)
	}
	children := map[string][]model.SubGroup{}
	for _, s := range w.SubGroups {
		children[s.Parent] = append(children[s.Parent], s)
	}
	return minimumOf(children, "", w.MinSubGroup, len(w.SubGroups))
}

// minimumOf adds up the children of parent; depth bounds a parent loop.
func minimumOf(children map[string][]model.SubGroup, parent string, required, depth int) int {
	if depth < 0 {
		return 0
	}
	var minima []int
	for _, s := range children[parent] {
		if len(children[s.Name]) == 0 {
			minima = append(minima, s.MinMember)
			continue
		}
		minima = append(minima, minimumOf(children, s.Name, s.MinSubGroup, depth-1))
	}
	slices.Sort(minima)
	if required != 0 && required < len(minima) {
		minima = minima[:max(required, 0)]
	}
	sum := 0
	for _, m := range minima {
		sum += m
	}
	return sum
}

// reached says whether the members that have arrived, by sub-group, are enough
// to run together.
func reached(w model.Workload, arrived map[string]int) bool {
	if len(w.SubGroups) == 0 {
		all := 0
		for _, n := range arrived {
			all += n
		}
		return all >= w.MinMember
	}
	children := map[string][]model.SubGroup{}
	for _, s := range w.SubGroups {
		children[s.Parent] = append(children[s.Parent], s)
	}
	return reachedBelow(children, "", w.MinSubGroup, arrived, len(w.SubGroups))
}

// reachedBelow asks the children of parent; depth bounds a parent loop.
func reachedBelow(children map[string][]model.SubGroup, parent string, required int, arrived map[string]int, depth int) bool {
	if depth < 0 {
		return false
	}
	below := children[parent]
	if required == 0 || required > len(below) {
		required = len(below)
	}
	enough := 0
	for _, s := range below {
		if len(children[s.Name]) == 0 && arrived[s.Name] >= s.MinMember ||
			len(children[s.Name]) > 0 && reachedBelow(children, s.Name, s.MinSubGroup, arrived, depth-1) {
			enough++
		}
	}
	return enough >= required
}

// gang counts the workload's members against what must run together, in every
// sub-group.
func (l *Ledger) gang(w *workload) GangView {
	l.refresh(w)
	g := w.count()
	g.Minimum = max(minimum(w.spec), 1)
	if len(w.spec.SubGroups) == 0 {
		return g
	}
	arrived := map[string]int{}
	for _, e := range w.pods {
		if e.holds() && !e.facts.deleting || e.succeeded() && !e.past {
			arrived[e.facts.pod.SubGroup]++
		}
	}
	for leaf, n := range w.finished {
		arrived[leaf] += n
	}
	g.Uneven = !reached(w.spec, arrived)
	return g
}
