// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// trimPod keeps what factsOf reads, so that tens of thousands of pods fit in
// memory. It changes the object that the informer is about to store.
func trimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	trimMeta(&pod.ObjectMeta)
	spec := corev1.PodSpec{
		NodeName:          pod.Spec.NodeName,
		PriorityClassName: pod.Spec.PriorityClassName,
		SchedulingGroup:   pod.Spec.SchedulingGroup,
		NodeSelector:      pod.Spec.NodeSelector,
		Tolerations:       pod.Spec.Tolerations,
		SchedulingGates:   pod.Spec.SchedulingGates,
		Priority:          pod.Spec.Priority,
		Overhead:          pod.Spec.Overhead,
		Resources:         pod.Spec.Resources,
		InitContainers:    trimContainers(pod.Spec.InitContainers),
		Containers:        trimContainers(pod.Spec.Containers),
	}
	if a := pod.Spec.Affinity; a != nil {
		spec.Affinity = &corev1.Affinity{PodAffinity: a.PodAffinity, PodAntiAffinity: a.PodAntiAffinity}
		if a.NodeAffinity != nil {
			spec.Affinity.NodeAffinity = &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			}
		}
	}
	pod.Spec = spec
	pod.Status = trimStatus(pod.Status)
	return pod, nil
}

func trimStatus(in corev1.PodStatus) corev1.PodStatus {
	out := corev1.PodStatus{
		Phase:              in.Phase,
		NominatedNodeName:  in.NominatedNodeName,
		StartTime:          in.StartTime,
		Resources:          in.Resources,
		AllocatedResources: in.AllocatedResources,
	}
	if in.Phase == corev1.PodFailed {
		out.Reason, out.Message = in.Reason, in.Message
	}
	for _, c := range in.Conditions {
		switch c.Type {
		case corev1.PodScheduled, v1alpha1.PodConditionWaiting, corev1.PodResizePending, corev1.PodResizeInProgress:
			c.LastProbeTime = metav1.Time{}
			out.Conditions = append(out.Conditions, c)
		}
	}
	out.InitContainerStatuses = trimStatuses(in.InitContainerStatuses)
	out.ContainerStatuses = trimStatuses(in.ContainerStatuses)
	return out
}

// trimStatuses keeps what an in-place resize shows.
func trimStatuses(in []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, s := range in {
		if s.Resources != nil || s.AllocatedResources != nil {
			out = append(out, corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources})
		}
	}
	return out
}

func trimContainers(in []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(in))
	for i, c := range in {
		out[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return out
}

// trimNode keeps what nodeFactsOf reads.
func trimNode(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	trimMeta(&n.ObjectMeta)
	n.Spec = corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints}
	status := corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status.Conditions = append(status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	n.Status = status
	return n, nil
}

// trimMeta drops what nobody reads: managed fields and other people's
// annotations, but for those that grouping reads.
func trimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	m.Annotations = maps.Clone(m.Annotations)
	maps.DeleteFunc(m.Annotations, func(key, _ string) bool {
		return !strings.HasPrefix(key, v1alpha1.Group+"/") &&
			!strings.HasPrefix(key, v1alpha1.MigrationPrefix) && key != v1alpha1.MigrationPodGroup
	})
}

// trimManagedFields suits every other kind.
func trimManagedFields(obj any) (any, error) {
	if m, ok := obj.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return obj, nil
}
