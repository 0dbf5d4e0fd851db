// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// tellAgain is the shortest time between two events that say why one object
// waits.
const tellAgain = 5 * time.Minute

// teller writes events: one when the kind of reason changes, not one a cycle.
type teller struct {
	options     *Options
	recorder    record.EventRecorder
	broadcaster record.EventBroadcaster // nil if the recorder was given
	told        map[string]wording      // by workload
}

func newTeller(o *Options) *teller {
	t := &teller{options: o, recorder: o.Recorder, told: map[string]wording{}}
	if t.recorder == nil {
		t.broadcaster = record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{QPS: 1.0 / 60, BurstSize: 10})
		t.recorder = t.broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "fairslice"})
	}
	return t
}

func (t *teller) run(ctx context.Context) {
	if t.broadcaster == nil {
		return
	}
	t.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: t.options.Client.CoreV1().Events("")})
	<-ctx.Done()
	t.broadcaster.Shutdown()
}

// waiting tells once a workload why it waits: on the PodGroup of a gang, on the
// pod if it is single and gated. kube-scheduler tells the others.
func (t *teller) waiting(waiting []kube.WaitView) {
	now := t.options.Clock()
	current := make(map[string]wording, len(t.told))
	for _, w := range waiting {
		if _, seen := current[w.Workload]; seen || w.Group == "" && !w.Gated {
			continue
		}
		before, known := t.told[w.Workload]
		current[w.Workload] = before
		if known && (before.code == w.Reason.Code || now.Sub(before.at) < tellAgain) {
			continue
		}
		current[w.Workload] = wording{w.Reason.Code, now}
		t.recorder.Event(t.subject(w), corev1.EventTypeWarning, reasonOf(w.Reason.Code), w.Reason.Message)
	}
	t.told = current
}

func (t *teller) subject(w kube.WaitView) *corev1.ObjectReference {
	if w.Group == "" || w.Reason.Code == kube.PodGroupMissing {
		return podReference(w.Pod)
	}
	return &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodGroup", Namespace: w.Pod.Namespace, Name: w.Group,
	}
}

// gang tells once on a PodGroup that members were lost and what becomes of the
// others.
func (t *teller) gang(g *v1alpha1.PodGroup, now v1alpha1.PodGroupStatus) {
	before, after := degradedReason(g.Status), degradedReason(now)
	kind := corev1.EventTypeWarning
	switch {
	case before == after:
		return
	case after == v1alpha1.ReasonComplete && (before == "" || now.Phase != v1alpha1.PodGroupRunning):
		return
	case after == v1alpha1.ReasonComplete, after == v1alpha1.ReasonMinimumRaised:
		kind = corev1.EventTypeNormal
	}
	ref := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodGroup", Namespace: g.Namespace, Name: g.Name, UID: g.UID,
	}
	t.recorder.Event(ref, kind, after, meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionDegraded).Message)
}

func degradedReason(s v1alpha1.PodGroupStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDegraded); c != nil {
		return c.Reason
	}
	return ""
}

func podReference(p kube.PodRef) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID)}
}

// troubles tells what is wrong with objects.
func (t *teller) troubles(troubles []kube.Trouble) {
	for _, tr := range troubles {
		ref := &corev1.ObjectReference{APIVersion: "v1", Kind: tr.Kind, Namespace: tr.Namespace, Name: tr.Name}
		switch tr.Kind {
		case "Node":
			ref.UID = types.UID(tr.Name) // where kubectl looks for a node's events
		case "Queue", "PodGroup", "Topology":
			ref.APIVersion = v1alpha1.GroupVersion.String()
		case "PodDisruptionBudget":
			ref.APIVersion = "policy/v1"
		}
		t.recorder.Event(ref, corev1.EventTypeWarning, v1alpha1.ReasonInvalidRequest, tr.Message)
	}
}

// reasonOf is the reason in conditions and events for a code.
func reasonOf(code explain.Code) string {
	switch code {
	case explain.InvalidRequest, explain.TopologyInvalid:
		return v1alpha1.ReasonInvalidRequest
	case explain.QueueDoesNotExist:
		return v1alpha1.ReasonQueueMissing
	case explain.QueueNotLeaf:
		return v1alpha1.ReasonQueueNotLeaf
	case explain.OverLimit:
		return v1alpha1.ReasonOverLimit
	case explain.NonPreemptibleOverQuota:
		return v1alpha1.ReasonNonPreemptibleOverQuota
	case explain.GangNotReady:
		return v1alpha1.ReasonMembersMissing
	case explain.UnknownSubGroup:
		return v1alpha1.ReasonSubGroupUnknown
	case kube.PodGroupMissing:
		return v1alpha1.ReasonPodGroupMissing
	case explain.NoNodeFits, explain.GangDoesNotFit:
		return v1alpha1.ReasonNoRoom
	case explain.TopologyDoesNotFit:
		return v1alpha1.ReasonTopologyUnsatisfied
	case explain.WaitingForVictims, explain.WaitingForRelease, explain.BudgetForbids, explain.EvictionRefused, explain.EvictionPace:
		return v1alpha1.ReasonWaitingForVictims
	case kube.BindingRefused:
		return v1alpha1.ReasonBindingRefused
	case explain.StaleGang, kube.GangReleased:
		return v1alpha1.ReasonStale
	}
	return string(code)
}
