// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// Grouper finds the gangs of pods whose user wrote no PodGroup. A Watcher tells
// it of pods before it tells the Ledger, and the Grouper answers through
// Ledger.SetMembership, then or later. No method may block.
type Grouper interface {
	// Observe takes in a pod as the API server has it, trimmed.
	Observe(pod *corev1.Pod)
	// Forget takes in that the pod of that UID is gone.
	Forget(uid string)
	// Reconsider takes in that a namespace's queue may have changed, and with
	// it whether its pods concern us at all.
	Reconsider(namespace string)
	// Listed takes in that every pod of the first list was observed.
	Listed()
}

// GroupingSource is the source that a Grouper marks by Synced once the pods of
// the first list have their gangs.
const GroupingSource = "grouping"

// GroupUnknown is why a pod waits whose owners have not been read yet.
const GroupUnknown explain.Code = "GroupUnknown"

// Membership is what the owners of a pod say about it.
type Membership struct {
	// Group is the pod's gang, nil for a pod that stands alone and inherits
	// nothing.
	Group *Group
	// SubGroup of Group that the pod belongs to.
	SubGroup string
	// Leader pods (launcher, master, head) are placed first in their gang, the
	// others by Rank, which is nil where there is none.
	Leader bool
	Rank   *int
	// NotRecreated is true if nothing makes a new pod for an evicted one,
	// though the pod has a controller.
	NotRecreated bool
	// Waits is why the pod must not be placed now, nil if it may.
	Waits *explain.Reason
}

// Group is a gang, or a single pod with what it inherits.
type Group struct {
	// Key of the workload; PodKey for a single pod.
	Key string
	// Owner is the object that describes the gang, nil if none does.
	Owner *metav1.OwnerReference
	// Spec as if the user had written a PodGroup.
	Spec v1alpha1.PodGroupSpec
	// Later are sub-groups whose minimum counts only from their first pod on:
	// their controller makes that pod when the others run.
	Later []string
	// DefaultClass is the priority class of pods that name none, if a class of
	// that name exists.
	DefaultClass string
	// CreatedAt of the owner in nanoseconds, 0 if that of the pods counts.
	CreatedAt int64
}

// PodKey is the key of a single pod's workload.
func PodKey(namespace, name string) string { return podKey(PodRef{Namespace: namespace, Name: name}) }

// SetMembership takes in what the owners of a pod say; nil is nothing. The pod
// may be unknown still: what it belongs to counts from its first moment.
func (l *Ledger) SetMembership(uid string, m *Membership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m == nil {
		delete(l.memberships, uid)
	} else {
		l.memberships[uid] = m
	}
	e := l.pods[uid]
	if e == nil {
		return
	}
	facts := *e.facts
	facts.adopt(m)
	if e.facts.member != m {
		e.planReason = nil // it was about another gang
	}
	e.facts = &facts
	l.join(e)
	l.refeed(e)
	l.note()
	e.seq = l.seq
}

// Concerns says whether a queue manages the pod, apart from what its owners
// say, or it asks for GPU: of all others nobody needs to know the gang.
func (l *Ledger) Concerns(pod *corev1.Pod) bool {
	facts := l.config.factsOf(pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	return facts.asksGPU || facts.group != "" || l.queueOfPod(facts) != ""
}

// adopt makes the pod a member of what its owners say; the pod's own choice of
// a PodGroup wins.
func (f *podFacts) adopt(m *Membership) {
	f.member = m
	f.pod.SubGroup, f.pod.Leader = f.ownSubGroup, false
	f.pod.Order, f.pod.HasOrder = f.ownRank.order, f.ownRank.ok
	if m == nil || f.group != "" {
		return
	}
	f.pod.SubGroup, f.pod.Leader = m.SubGroup, m.Leader
	if m.Rank != nil {
		f.pod.Order, f.pod.HasOrder = -*m.Rank, true
	}
}

// derived is the gang or the inheritance that the pod's owners gave it.
func (f *podFacts) derived() *Group {
	if f.member == nil || f.group != "" {
		return nil
	}
	return f.member.Group
}

// inGang is true for a pod of a PodGroup or of a derived gang.
func (f *podFacts) inGang() bool {
	g := f.derived()
	return f.group != "" || g != nil && g.Key != podKey(f.ref)
}

// derived is the workload's gang as the owners of its first pod describe it.
func (w *workload) derived() *Group {
	var first *entry
	for _, e := range w.pods {
		if e.facts.derived() != nil && (first == nil || e.facts.ref.UID < first.facts.ref.UID) {
			first = e
		}
	}
	if first == nil {
		return nil
	}
	return first.facts.derived()
}

// gangSpec is what is asked of the workload as a whole, nil for a single pod
// that inherits nothing.
func (w *workload) gangSpec() *v1alpha1.PodGroupSpec {
	if w.group != nil {
		return &w.group.Spec
	}
	if g := w.derived(); g != nil {
		return &g.Spec
	}
	return nil
}

// apply puts the spec of a gang over what follows from its pods.
func (l *Ledger) apply(g *v1alpha1.PodGroupSpec, out *model.Workload) {
	out.Queue = cmp.Or(g.Queue, out.Queue)
	if g.PriorityClassName != "" {
		out.Priority = l.classPriority(g.PriorityClassName)
		out.Preemptible = out.Priority < l.config.PreemptibleBelow
	}
	if g.Preemptible != nil {
		out.Preemptible = *g.Preemptible
	}
	out.MinMember = intOr(g.MinMember, v1alpha1.DefaultMinMember)
	out.MinSubGroup = minSubGroup(g.MinSubGroup)
	out.SubGroups = subGroupsOf(g.SubGroups)
	out.Topology = constraintOf(g.Topology)
	out.PreemptionDelay = delayOf(g.PreemptionDelay)
	out.StaleGrace = durationOr(g.StaleGracePeriod, -1)
	if g.StaleGracePeriod != nil && g.StaleGracePeriod.Duration < 0 {
		out.StaleGrace = never
	}
}

// buildDerived puts what the owners say over what follows from the pods.
func (l *Ledger) buildDerived(w *workload, g *Group, out *model.Workload) {
	spec := g.Spec
	if _, exists := l.priorities[g.DefaultClass]; exists && spec.PriorityClassName == "" {
		spec.PriorityClassName = g.DefaultClass
	}
	if own := w.preemptible(); spec.Preemptible == nil {
		spec.Preemptible = own
	}
	l.apply(&spec, out)
	if g.CreatedAt > 0 {
		out.CreatedAt = g.CreatedAt
	}
	out.OneRun = true // those of another owner or attempt have another key
	for i := range out.SubGroups {
		s := &out.SubGroups[i]
		if slices.Contains(g.Later, s.Name) && !w.hasPodIn(s.Name) {
			s.MinMember = 0
		}
	}
}

func (w *workload) hasPodIn(subGroup string) bool {
	for _, e := range w.pods {
		if e.facts.pod.SubGroup == subGroup && !e.facts.terminal() && !e.facts.deleting {
			return true
		}
	}
	return false
}
