// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// This file is all that is here for workloads written for KAI Scheduler, so
// that a cluster can move one namespace after the other. Its pod-grouper should
// be stopped first.

// migrated maps what we read to what KAI's users wrote for the same purpose.
var migrated = map[string]string{
	v1alpha1.AnnotationMinMember:                "kai.scheduler/batch-min-member",
	v1alpha1.AnnotationTopology:                 "kai.scheduler/topology",
	v1alpha1.AnnotationTopologyRequired:         "kai.scheduler/topology-required-placement",
	v1alpha1.AnnotationTopologyPreferred:        "kai.scheduler/topology-preferred-placement",
	v1alpha1.AnnotationSegmentSize:              "kai.scheduler/segment-size",
	v1alpha1.AnnotationSegmentTopologyRequired:  "kai.scheduler/segment-topology-required-placement",
	v1alpha1.AnnotationSegmentTopologyPreferred: "kai.scheduler/segment-topology-preferred-placement",
	v1alpha1.AnnotationPreemptionDelay:          "kai.scheduler/preemption-delay",
	v1alpha1.LabelPriorityClass:                 "priorityClassName",
	v1alpha1.LabelQueue:                         "kai.scheduler/queue",
}

const kaiSubGroup = "kai.scheduler/subgroup-name"

var kaiPodGroup = schema.GroupKind{Group: "scheduling.run.ai", Kind: "PodGroup"}

// kaiReference is the group that KAI's pod-grouper or the user put the pod
// into; it counts only as long as it exists.
func kaiReference(pod *corev1.Pod) *reference {
	name := pod.Annotations[v1alpha1.MigrationPodGroup]
	if name == "" {
		return nil
	}
	return &reference{kind: kaiPodGroup, name: name, optional: true}
}

// kaiGroup reads KAI's PodGroup (scheduling.run.ai/v2alpha2).
func kaiGroup(in *input) kube.Membership {
	g := in.group("", in.at("spec.minMember").count(v1alpha1.DefaultMinMember))
	g.Spec.Queue = in.at("spec.queue").text()
	if name := in.at("spec.priorityClassName").text(); name != "" {
		g.Spec.PriorityClassName = name
	}
	switch f := in.at("spec.preemptibility"); f.text() {
	case "":
	case "preemptible", "non-preemptible":
		g.Spec.Preemptible = new(f.text() == "preemptible")
	default:
		f.wrong("preemptible or non-preemptible")
	}
	if c := kaiConstraint(in.at("spec.topologyConstraint")); c != nil {
		g.Spec.Topology = c
	}
	if f := in.at("spec.minSubGroup"); f.exists() {
		g.Spec.MinSubGroup, g.Spec.MinMember = new(int32(f.count(0))), nil
	}
	for _, f := range in.at("spec.subGroups").list() {
		s := v1alpha1.SubGroup{Name: f.get("name").text(), Parent: f.get("parent").text(), Topology: kaiConstraint(f.get("topologyConstraint"))}
		if n := f.get("minMember"); n.exists() {
			s.MinMember = new(int32(n.count(0)))
		}
		if n := f.get("minSubGroup"); n.exists() {
			s.MinSubGroup = new(int32(n.count(0)))
		}
		g.Spec.SubGroups = append(g.Spec.SubGroups, s)
	}
	return kube.Membership{Group: g, SubGroup: in.pod.Labels[kaiSubGroup]}
}

func kaiConstraint(f field) *v1alpha1.TopologyConstraint {
	c := v1alpha1.TopologyConstraint{
		Name:      f.get("topology").text(),
		Required:  f.get("requiredTopologyLevel").text(),
		Preferred: f.get("preferredTopologyLevel").text(),
	}
	if c.Required == "" && c.Preferred == "" {
		return nil
	}
	return &c
}
