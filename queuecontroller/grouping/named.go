// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// groupRules are the group objects of other projects that pods name.
var groupRules = map[schema.GroupKind]rule{
	coschedulingPodGroup: {spec: true, derive: coschedulingGroup},
	nativePodGroup:       {spec: true, derive: nativeGroup},
	grovePodGang:         {spec: true, class: train, derive: groveGang},
	kaiPodGroup:          {spec: true, class: train, derive: kaiGroup},
}

var (
	coschedulingPodGroup = schema.GroupKind{Group: "scheduling.x-k8s.io", Kind: "PodGroup"}
	nativePodGroup       = schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PodGroup"}
)

const labelCoscheduling = "scheduling.x-k8s.io/pod-group"

// reference names a group object in the pod's namespace.
type reference struct {
	kind schema.GroupKind
	name string
	// optional references count only while their object exists.
	optional bool
}

// referenceOf is the group of another project that the pod names, nil for
// none.
func referenceOf(pod *corev1.Pod) *reference {
	if g := pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil && *g.PodGroupName != "" {
		return &reference{kind: nativePodGroup, name: *g.PodGroupName}
	}
	if name := pod.Labels[labelCoscheduling]; name != "" {
		return &reference{kind: coschedulingPodGroup, name: name}
	}
	if name := pod.Labels[labelGroveGang]; name != "" {
		return &reference{kind: grovePodGang, name: name}
	}
	return kaiReference(pod)
}

// coschedulingGroup reads the PodGroup of the coscheduling plugin
// (scheduling.x-k8s.io/v1alpha1): its minMember. minResources is of no use here,
// since the members' own requests are counted.
func coschedulingGroup(in *input) kube.Membership {
	return kube.Membership{Group: in.group("", in.at("spec.minMember").count(v1alpha1.DefaultMinMember))}
}

// nativeGroup reads the PodGroup of Kubernetes (scheduling.k8s.io, from 1.36 on,
// KEP-4671): a gang of minCount, or with the basic policy pods that start on
// their own.
func nativeGroup(in *input) kube.Membership {
	policy := in.at("spec.schedulingPolicy")
	if !policy.get("gang").exists() {
		if !policy.get("basic").exists() {
			policy.wrong("basic or gang")
		}
		return in.alone()
	}
	g := in.group("", policy.get("gang").get("minCount").count(v1alpha1.DefaultMinMember))
	if class := in.at("spec.priorityClassName").text(); class != "" {
		g.Spec.PriorityClassName = class
	}
	for _, c := range in.at("spec.schedulingConstraints.topology").list() {
		name := in.upper(v1alpha1.AnnotationTopology)
		if name == "" {
			in.failf("annotation %s is not set, must be the name of the Topology that has the level %s", v1alpha1.AnnotationTopology, c.get("key").text())
		}
		g.Spec.Topology = &v1alpha1.TopologyConstraint{Name: name, Required: c.get("key").text()}
	}
	return kube.Membership{Group: g}
}
