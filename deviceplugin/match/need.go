// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// Names are the names under which the resources are served, by pool.Kind: whole
// GPUs, slices, GiB, and one for each profile of MIG instances. An empty name is
// not served.
type Names []string

// DefaultNames serves GPUs that are not in MIG mode.
func DefaultNames() Names {
	return Names{v1alpha1.ResourceWholeGPU, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory}
}

// Kind of a served resource.
func (n Names) Kind(resource string) (pool.Kind, bool) {
	i := slices.Index(n, resource)
	return pool.Kind(i), i >= 0 && resource != ""
}

// Owner is a container of a pod.
type Owner struct {
	PodUID, Namespace, Pod, Container string
}

// String is "<namespace>/<pod>, container <name>".
func (o Owner) String() string {
	if o.PodUID == "" && o.Pod == "" {
		return "an unknown pod"
	}
	if o.Pod == "" {
		return fmt.Sprintf("pod with UID %s, container %s", o.PodUID, o.Container)
	}
	return fmt.Sprintf("pod %s/%s, container %s", o.Namespace, o.Pod, o.Container)
}

// Served lists the kinds that have a name.
func (n Names) Served() []pool.Kind {
	var out []pool.Kind
	for k, name := range n {
		if name != "" {
			out = append(out, pool.Kind(k))
		}
	}
	return out
}

// need is a container that asks for one of our resources.
type need struct {
	owner Owner
	kind  pool.Kind
	count int64
	// init is true for plain init containers, whose devices the kubelet re-uses.
	init bool
	// plan is the control plane's choice, nil if there is none.
	plan []v1alpha1.AssignedGPU
	// ended is true where the kubelet has taken the pod's devices back already.
	ended bool
}

// claim names a need.
type claim struct {
	owner Owner
	kind  pool.Kind
}

// pod is what the book keeps of a pod bound to this node.
type pod struct {
	uid, namespace, name string
	needs                []need // in the kubelet's order: init containers first
	// assignment is the valid annotation, else empty with the reason in noPlan.
	assignment v1alpha1.Assignment
	noPlan     string
	terminal   bool
	ended      bool
	scheduled  time.Time
	created    time.Time
}

// readPod keeps what matters of a pod of this node.
func readPod(p *corev1.Pod, node string, names Names) *pod {
	out := &pod{
		uid: string(p.UID), namespace: p.Namespace, name: p.Name,
		terminal: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		created:  p.CreationTimestamp.Time,
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			out.scheduled = c.LastTransitionTime.Time
		}
	}
	out.readAssignment(p, node)
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		out.addNeeds(c, !sidecar, names)
	}
	for i := range p.Spec.Containers {
		out.addNeeds(&p.Spec.Containers[i], false, names)
	}
	return out
}

// readAssignment trusts the annotation only if it names this pod's UID and this
// node: a copy from another pod, or of an earlier attempt to bind, plans nothing.
func (p *pod) readAssignment(from *corev1.Pod, node string) {
	raw, set := from.Annotations[v1alpha1.AnnotationGPUAssignment]
	if !set {
		p.noPlan = "it carries no annotation " + v1alpha1.AnnotationGPUAssignment
		return
	}
	a, err := v1alpha1.DecodeAssignment(raw)
	switch {
	case err != nil:
		p.noPlan = err.Error()
	case a.PodUID != p.uid:
		p.noPlan = fmt.Sprintf("its annotation %s is of another pod (UID %s)", v1alpha1.AnnotationGPUAssignment, a.PodUID)
	case a.Node != node:
		p.noPlan = fmt.Sprintf("its annotation %s is for node %s", v1alpha1.AnnotationGPUAssignment, a.Node)
	default:
		p.assignment = a
	}
}

func (p *pod) addNeeds(c *corev1.Container, init bool, names Names) {
	for k, resource := range names {
		q, asked := c.Resources.Limits[corev1.ResourceName(resource)]
		if resource == "" || !asked || q.Value() <= 0 {
			continue
		}
		n := need{
			owner: Owner{PodUID: p.uid, Namespace: p.namespace, Pod: p.name, Container: c.Name},
			kind:  pool.Kind(k), count: q.Value(), init: init,
		}
		// By name: positions shift when a sidecar is injected (HAMi #654).
		for _, planned := range p.assignment.Containers {
			if planned.Name == c.Name && planned.Resource == resource && totalUnits(planned.GPUs) == n.count {
				n.plan = planned.GPUs
			}
		}
		p.needs = append(p.needs, n)
	}
}

func totalUnits(gpus []v1alpha1.AssignedGPU) int64 {
	var sum int64
	for _, g := range gpus {
		sum += g.Units
	}
	return sum
}

// before orders pods as the kubelet most likely meets them.
func (p *pod) before(q *pod) int {
	if c := p.scheduled.Compare(q.scheduled); c != 0 {
		return c
	}
	if c := p.created.Compare(q.created); c != 0 {
		return c
	}
	return strings.Compare(p.uid, q.uid)
}
