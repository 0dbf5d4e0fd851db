// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

func (p *player) queue(name string, a args) {
	if a.has("gone") {
		p.ledger.RemoveQueue(name)
		return
	}
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Spec.Parent = a["parent"]
	for key, into := range map[string]*v1alpha1.ResourceAmounts{"quota": &q.Spec.Quota, "limit": &q.Spec.Limit} {
		if a.has(key) {
			*into = v1alpha1.ResourceAmounts{v1alpha1.QuotaGPU: v1alpha1.AmountOf(resource.MustParse(a[key]))}
		}
	}
	for key, into := range map[string]**metav1.Duration{"delay": &q.Spec.PreemptionDelay, "backoff": &q.Spec.EvictionBackoff} {
		if a.has(key) {
			*into = &metav1.Duration{Duration: a.duration(key)}
		}
	}
	if a.has("evictions") {
		q.Spec.EvictionsPerMinute = new(int32(a.number("evictions", 0)))
	}
	p.ledger.SetQueue(q)
}

func (p *player) podGroup(name string, a args) {
	if a.has("gone") {
		p.ledger.RemovePodGroup("default", name)
		return
	}
	g := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	g.Spec.Queue = a["queue"]
	if a.has("delay") {
		g.Spec.PreemptionDelay = &metav1.Duration{Duration: a.duration("delay")}
	}
	if a.has("min") {
		n := int32(a.number("min", 1))
		g.Spec.MinMember = &n
	}
	for name := range strings.SplitSeq(a["subs"], ",") {
		if name != "" {
			g.Spec.SubGroups = append(g.Spec.SubGroups, v1alpha1.SubGroup{Name: name, MinMember: new(int32(a.number(name, 1)))})
		}
	}
	p.ledger.SetPodGroup(g)
}

func (p *player) node(name string, a args) {
	if a.has("gone") {
		p.ledger.RemoveNode(name)
		return
	}
	n, gpus := nodeOf(name), a.number("gpus", 0)
	switch {
	case a.has("garbage"):
		n.Annotations = map[string]string{v1alpha1.AnnotationGPUs: a["garbage"]}
	case a.or("plugin", "yes") == "no":
		setCount(n.Status.Capacity, v1alpha1.ResourceWholeGPU, gpus)
		setCount(n.Status.Allocatable, v1alpha1.ResourceWholeGPU, a.number("healthy", gpus))
	case gpus > 0:
		n.Annotations = map[string]string{v1alpha1.AnnotationGPUs: limited(inventoryOf(name, gpus, a.number("mib", 40960), a.number("healthy", gpus)), a.number("sharers", 0))}
		if a.or("served", "yes") == "yes" {
			setCount(n.Status.Allocatable, v1alpha1.ResourceGPUSlice, 100*gpus)
			setCount(n.Status.Allocatable, v1alpha1.ResourceGPUMemory, gpus*(a.number("mib", 40960)/1024))
			setCount(n.Status.Allocatable, v1alpha1.ResourceWholeGPU, a.number("offers", gpus))
		}
	}
	p.ledger.SetNode(n)
}

func nodeOf(name string) *corev1.Node {
	list := func() corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: list(), Allocatable: list(),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func setCount(list corev1.ResourceList, name string, n int) {
	list[corev1.ResourceName(name)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
}

// limited puts a limit of sharers on each GPU of an inventory.
func limited(inventory string, sharers int) string {
	v, err := v1alpha1.DecodeInventory(inventory)
	if err != nil {
		panic(err)
	}
	for i := range v.GPUs {
		v.GPUs[i].MaxSharers = sharers
	}
	text, err := v.Encode()
	if err != nil {
		panic(err)
	}
	return text
}

func inventoryOf(node string, gpus, mib, healthy int) string {
	v := v1alpha1.Inventory{}
	for i := range gpus {
		v.GPUs = append(v.GPUs, v1alpha1.InventoryGPU{
			UUID: fmt.Sprintf("%s-g%d", node, i), ID: strconv.Itoa(i), Index: i, Model: "A100", MemoryMiB: int64(mib), NUMANode: -1,
			Healthy: i < healthy, Resources: []string{v1alpha1.ResourceWholeGPU, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory},
		})
	}
	text, err := v.Encode()
	if err != nil {
		panic(err)
	}
	return text
}

// podOf builds a pod as the API server would have it.
func podOf(name string, a args, now time.Time) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.or("ns", "default"), Name: name, UID: types.UID(a.or("uid", name)),
		CreationTimestamp: metav1.NewTime(now), Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	for key, label := range map[string]string{"queue": v1alpha1.LabelQueue, "group": v1alpha1.LabelPodGroup, "app": "app", "sub": v1alpha1.LabelSubGroup} {
		if a.has(key) {
			pod.Labels[label] = a[key]
		}
	}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(a.or("cpu", "1"))}
	for key, name := range map[string]string{"gpu": v1alpha1.ResourceWholeGPU, "slice": v1alpha1.ResourceGPUSlice, "mem": v1alpha1.ResourceGPUMemory} {
		if a.has(key) {
			limits[corev1.ResourceName(name)] = resource.MustParse(a[key])
		}
	}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}}
	if a.has("sidecar") {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Resources: pod.Spec.Containers[0].Resources})
	}
	if a.has("count") {
		pod.Annotations[v1alpha1.AnnotationGPUCount] = a["count"]
	}
	if a.has("owner") {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: a["owner"], UID: types.UID(a["owner"]), Controller: &yes}}
	}
	priority := int32(a.number("priority", 0))
	pod.Spec.Priority = &priority
	setLife(pod, a, now)
	return pod
}

// setLife fills in how far the pod has come.
func setLife(pod *corev1.Pod, a args, now time.Time) {
	pod.Spec.NodeName = a["node"]
	pod.Status.Phase = corev1.PodPhase(a.or("phase", "Pending"))
	pod.Status.NominatedNodeName = a["nominated"]
	if reason := a["kubelet"]; reason != "" {
		pod.Status.Reason, pod.Status.Message = reason, "Pod was rejected"
	}
	if a.has("gated") {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.GateQueue})
	}
	if a.has("othergate") {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/wait"})
	}
	if a.has("deleting") {
		at := metav1.NewTime(now.Add(30 * time.Second))
		pod.DeletionTimestamp = &at
	}
	if a.has("refused") {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: a["refused"],
		}}
	}
	if a.has("assigned") {
		pod.Annotations[v1alpha1.AnnotationGPUAssignment] = assignmentOf(pod, a)
	}
}

// assignmentOf writes the annotation by which the pod holds the named GPUs.
func assignmentOf(pod *corev1.Pod, a args) string {
	if a["assigned"] == "garbage" {
		return `{"v":1`
	}
	assignment := v1alpha1.Assignment{PodUID: string(pod.UID), Node: pod.Spec.NodeName}
	c := v1alpha1.ContainerAssignment{Name: "main", Resource: v1alpha1.ResourceWholeGPU}
	units, milli := int64(1), int64(1000)
	if a.has("slice") {
		c.Resource = v1alpha1.ResourceGPUSlice
		units = int64(a.number("slice", 0) / a.number("count", 1))
		milli = units * 10
	}
	for uuid := range strings.SplitSeq(a["assigned"], ",") {
		c.GPUs = append(c.GPUs, v1alpha1.AssignedGPU{UUID: uuid, Units: units, MilliGPU: milli, MemoryMiB: 40960 * milli / 1000})
	}
	assignment.Containers = []v1alpha1.ContainerAssignment{c}
	text, err := assignment.Encode()
	if err != nil {
		panic(err)
	}
	return text
}
