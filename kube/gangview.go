// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// GroupView is a gang with its members: a PodGroup as it is in the API server,
// or a derived gang.
type GroupView struct {
	// Object is the PodGroup, or the one that shows the derived gang; nil while
	// there is none.
	Object *v1alpha1.PodGroup
	// Derived is nil for a PodGroup that somebody wrote.
	Derived *DerivedGang
	Queue   string
	Phase   v1alpha1.PodGroupPhase
	Gang    GangView
	// Members exist and have not ended, Running of them run.
	Members, Running, Failed int
	// SubGroups that hold pods, by name.
	SubGroups []v1alpha1.SubGroupStatus
	// StaleSince is when the gang lost a member that it is short of, 0 if it is
	// short of none, and Grace how long it may be, both in nanoseconds.
	StaleSince, Grace int64
	// Short is true while the minimum is not met by a gang that had it, or not
	// by a sub-group that the gang can do without.
	Short bool
	// Reason says why members wait, nil if none does.
	Reason *explain.Reason
}

// Groups returns every PodGroup and every derived gang of more than one pod, by
// key.
func (l *Ledger) Groups() []GroupView {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	var out []GroupView
	for _, key := range slices.Sorted(maps.Keys(l.workloads)) {
		w := l.workloads[key]
		if v := (GroupView{Object: w.group}); w.group != nil || l.show(w, &v) {
			l.look(w, &v)
			out = append(out, v)
		}
	}
	return append(out, l.podless()...)
}

// look fills in what there is to see.
func (l *Ledger) look(w *workload, v *GroupView) {
	spec := l.build(w)
	h := l.headsOf(w, &spec)
	v.Queue, v.Gang = spec.Queue, w.count()
	v.Gang.Minimum = minimum(spec)
	for _, e := range w.sorted() {
		l.addMember(v, e)
	}
	v.SubGroups = subGroupStatus(&spec, &h)
	v.StaleSince, v.Grace, v.Short = w.staleSince, l.graceOf(w), w.ran && w.short
	v.Phase = w.phase(v, &spec, &h, l.now())
}

// phase is the gang's state in one word; docs/gangs.md says how it changes.
func (w *workload) phase(v *GroupView, spec *model.Workload, h *heads, now int64) v1alpha1.PodGroupPhase {
	switch {
	case v.Members == 0 && v.Gang.Succeeded+v.Failed > 0:
		return v1alpha1.PodGroupFinished
	case w.released, w.staleSince != 0 && now-w.staleSince >= v.Grace && h.broken(spec, h.lasting):
		return v1alpha1.PodGroupStale
	case w.staleSince != 0, v.Short && h.done.sum() > 0:
		return v1alpha1.PodGroupDegraded
	case v.Members == 0:
		return v1alpha1.PodGroupPending
	case v.Short, reached(*spec, h.running) && h.running.sum() > 0:
		return v1alpha1.PodGroupRunning
	case reached(*spec, h.bound) && h.bound.sum() > 0:
		return v1alpha1.PodGroupStarting
	case reached(*spec, h.held) && h.held.sum() > 0:
		return v1alpha1.PodGroupScheduling
	case v.Members+v.Gang.Succeeded < v.Gang.Minimum:
		return v1alpha1.PodGroupPending
	}
	return v1alpha1.PodGroupWaiting
}

// subGroupStatus lists the sub-groups that hold pods.
func subGroupStatus(spec *model.Workload, h *heads) []v1alpha1.SubGroupStatus {
	inner := map[string]bool{}
	for _, s := range spec.SubGroups {
		inner[s.Parent] = true
	}
	var out []v1alpha1.SubGroupStatus
	for _, s := range spec.SubGroups {
		if inner[s.Name] {
			continue
		}
		done := h.done[s.Name]
		out = append(out, v1alpha1.SubGroupStatus{
			Name: s.Name, MinMember: int32(s.MinMember), Members: int32(h.members[s.Name]),
			Placed: int32(h.alive[s.Name] - done), Running: int32(h.running[s.Name] - done), Succeeded: int32(done),
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.SubGroupStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (l *Ledger) addMember(v *GroupView, e *entry) {
	switch {
	case e.past:
		return
	case e.state == stateReleased:
		if e.facts.phase == corev1.PodFailed {
			v.Failed++
		}
		return
	case e.facts.phase == corev1.PodRunning:
		v.Running++
	}
	v.Members++
	if v.Reason != nil || e.facts.deleting {
		return
	}
	switch {
	case e.state == stateWaiting:
		v.Reason = l.ownReason(e)
		if v.Reason == nil {
			v.Reason = e.planReason
		}
	case e.state == statePromised && !l.startable(e):
		v.Reason = l.awaitReason(e)
	}
}

// remember reads from a gang's status, once, what only the past can tell: how many
// members had finished whose pods are gone, whether it ran, and since when it is
// short. It returns true if the gang is short because its minimum was raised.
func (l *Ledger) remember(w *workload) (raised bool) {
	object := w.group
	if object == nil {
		object = l.shown[w.key]
	}
	if w.remembered || object == nil || len(w.pods) == 0 {
		return false
	}
	w.remembered = true
	status := &object.Status
	l.rememberFinished(w, status)
	switch status.Phase {
	case v1alpha1.PodGroupStarting, v1alpha1.PodGroupRunning, v1alpha1.PodGroupDegraded, v1alpha1.PodGroupStale:
		w.ran = true
	}
	degraded := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
	switch {
	case degraded == nil:
	case degraded.Reason == v1alpha1.ReasonMembersLost, degraded.Reason == v1alpha1.ReasonStale:
		w.staleSince = degraded.LastTransitionTime.UnixNano()
	case degraded.Reason == v1alpha1.ReasonMinimumRaised:
		raised = true
	}
	return raised
}

// rememberFinished compares the members that have ended well by the status with
// those whose pods are still there: the others' pods are gone.
func (l *Ledger) rememberFinished(w *workload, status *v1alpha1.PodGroupStatus) {
	known := roll{"": int(status.Succeeded)}
	if len(status.SubGroups) > 0 {
		known = roll{}
		for _, s := range status.SubGroups {
			known[s.Name] = int(s.Succeeded)
		}
	}
	spec := l.build(w)
	w.finished = roll{}
	for _, e := range w.sorted() {
		if e.succeeded() {
			w.finished[leafOf(&spec, e.facts)]--
		}
	}
	for leaf, n := range known {
		w.finished[leaf] += n
	}
	maps.DeleteFunc(w.finished, func(_ string, n int) bool { return n <= 0 })
}
