// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// PodRef names one pod for ever.
type PodRef struct{ Namespace, Name, UID string }

func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// podFacts is all that the ledger keeps of a pod as the API server has it.
type podFacts struct {
	ref PodRef
	// pod holds everything but State, Node, Held and ExcludedNodes, which are
	// the ledger's.
	pod   model.Pod
	parts []part

	queueLabel string
	asksGPU    bool
	asks       offer
	group      string // PodGroup's name
	// member is what the pod's owners say; ownSubGroup and ownRank are what the
	// pod itself says.
	member      *Membership
	ownSubGroup string
	ownRank     rank
	priority    int32
	preemptible *bool
	recreated   bool
	spreading   spreading

	gated, foreignGate bool
	node               string // spec.nodeName
	nominated          string
	phase              corev1.PodPhase
	turnedAway         string // what the kubelet said when it refused the pod
	deleting           bool
	// goneBy is the end of the grace period of a pod that is being deleted.
	goneBy     time.Time
	startedAt  int64
	assignment string
	// scheduled is the pod's condition PodScheduled while it is false, refusal
	// its message if kube-scheduler could not place the pod.
	scheduled struct{ reason, message string }
	refusal   string
	// waiting is the pod's condition v1alpha1.PodConditionWaiting while it is
	// true.
	waiting struct{ reason, message string }
	owner   string // UID of the controller
	daemon  bool
	// invalid is set when no place could ever serve the pod.
	invalid *explain.Reason
}

// rank is a pod's place in the order of its workload, if ok.
type rank struct {
	order int
	ok    bool
}

// spreading is a pod's own choice of pack or spread, nil for none.
type spreading struct{ node, gpu *model.Spreading }

// terminal pods hold nothing.
func (f *podFacts) terminal() bool {
	return f.phase == corev1.PodSucceeded || f.phase == corev1.PodFailed
}

// factsOf translates a pod. It never fails: what is wrong with the pod is in
// facts.invalid, and all that can be read is read, since a bound pod takes up
// room whatever its annotations say.
func (c *Config) factsOf(pod *corev1.Pod) *podFacts {
	f := &podFacts{
		ref:        PodRef{pod.Namespace, pod.Name, string(pod.UID)},
		queueLabel: pod.Labels[c.QueueLabel],
		group:      pod.Labels[v1alpha1.LabelPodGroup],
		recreated:  metav1.GetControllerOf(pod) != nil,
		node:       pod.Spec.NodeName,
		nominated:  pod.Status.NominatedNodeName,
		phase:      pod.Status.Phase,
		turnedAway: kubeletRefusal(&pod.Status),
		assignment: pod.Annotations[v1alpha1.AnnotationGPUAssignment],
	}
	if pod.Spec.Priority != nil {
		f.priority = *pod.Spec.Priority
	}
	if pod.DeletionTimestamp != nil {
		f.deleting, f.goneBy = true, pod.DeletionTimestamp.Time
	}
	if pod.Status.StartTime != nil {
		f.startedAt = pod.Status.StartTime.UnixNano()
	}
	for _, gate := range pod.Spec.SchedulingGates {
		if gate.Name == v1alpha1.GateQueue {
			f.gated = true
		} else {
			f.foreignGate = true
		}
	}
	f.readScheduled(pod)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		f.owner, f.daemon = string(owner.UID), owner.Kind == "DaemonSet"
	}
	f.pod = c.corePod(pod)
	f.asks = c.offerOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}))
	f.ownSubGroup, f.ownRank = f.pod.SubGroup, rank{f.pod.Order, f.pod.HasOrder}
	f.readGPU(c, pod)
	f.readChoices(pod)
	return f
}

// corePod translates what kube-scheduler's own filters look at.
func (c *Config) corePod(pod *corev1.Pod) model.Pod {
	p := model.Pod{
		UID:         string(pod.UID),
		Name:        pod.Name,
		SubGroup:    pod.Labels[v1alpha1.LabelSubGroup],
		Request:     c.quantities(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})),
		NodeTerms:   nodeTerms(pod),
		Tolerations: tolerations(pod.Spec.Tolerations),
		Affinities:  podAffinities(pod),
		Labels:      labelsWithNamespace(pod),
		CreatedAt:   pod.CreationTimestamp.UnixNano(),
	}
	p.Order, p.HasOrder = rankOf(pod)
	return p
}

// rankOf orders the members of a workload by the index that their controller
// gave them: rank 0 first.
func rankOf(pod *corev1.Pod) (order int, ok bool) {
	for _, key := range []string{"batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index"} {
		if value, has := pod.Labels[key]; has {
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				return -n, true
			}
		}
	}
	return 0, false
}

func (f *podFacts) readScheduled(pod *corev1.Pod) {
	for _, cond := range pod.Status.Conditions {
		if cond.Type == v1alpha1.PodConditionWaiting && cond.Status == corev1.ConditionTrue {
			f.waiting.reason, f.waiting.message = cond.Reason, cond.Message
		}
		if cond.Type != corev1.PodScheduled || cond.Status != corev1.ConditionFalse {
			continue
		}
		f.scheduled.reason, f.scheduled.message = cond.Reason, cond.Message
		if cond.Reason == corev1.PodReasonUnschedulable && !f.gated {
			f.refusal = cond.Message
		}
	}
}

// readGPU fills in the claims.
func (f *podFacts) readGPU(c *Config, pod *corev1.Pod) {
	claims, parts, err := c.claimsOf(pod)
	if err != nil {
		f.asksGPU = true
		f.reject(err)
		return
	}
	f.pod.Claims, f.parts = claims, parts
	f.asksGPU = len(claims) > 0
	for name, n := range f.pod.Request {
		if n > 0 && len(name) > len(model.ResourceMIGPrefix) && name[:len(model.ResourceMIGPrefix)] == model.ResourceMIGPrefix {
			f.asksGPU = true
		}
	}
}

// readChoices reads the labels and annotations that choose between named
// values.
func (f *podFacts) readChoices(pod *corev1.Pod) {
	if value, ok := pod.Labels[v1alpha1.LabelPreemptible]; ok {
		switch value {
		case "true", "false":
			yes := value == "true"
			f.preemptible = &yes
		default:
			f.reject(fmt.Errorf("label %s is %q, must be \"true\" or \"false\"", v1alpha1.LabelPreemptible, value))
		}
	}
	if value, ok := pod.Annotations[v1alpha1.AnnotationMinIsolation]; ok {
		level, known := isolationLevels[value]
		if !known {
			f.reject(fmt.Errorf("annotation %s is %q, must be mig, cgroup, mps, intercept, watch or none",
				v1alpha1.AnnotationMinIsolation, value))
		}
		f.pod.MinIsolation = level
	}
	f.spreading.node = f.readSpreading(pod, v1alpha1.AnnotationNodePlacement)
	f.spreading.gpu = f.readSpreading(pod, v1alpha1.AnnotationGPUPlacement)
}

func (f *podFacts) readSpreading(pod *corev1.Pod, key string) *model.Spreading {
	value, ok := pod.Annotations[key]
	if !ok {
		return nil
	}
	choice := model.Pack
	switch value {
	case "pack":
	case "spread":
		choice = model.Spread
	default:
		f.reject(fmt.Errorf("annotation %s is %q, must be pack or spread", key, value))
		return nil
	}
	return &choice
}

// reject notes the first thing that is wrong with the pod.
func (f *podFacts) reject(err error) {
	if f.invalid == nil {
		f.invalid = &explain.Reason{
			Code:    explain.InvalidRequest,
			Message: fmt.Sprintf("pod %s: %s", f.ref, err),
		}
	}
}
