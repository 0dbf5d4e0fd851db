// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"cmp"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// Labels of Ray's pods and the head's group.
const (
	labelRayGroup    = "ray.io/group"
	labelRayNodeType = "ray.io/node-type"
	labelRayPriority = "ray.io/priority-class-name"
	rayHeadGroup     = "headgroup"
)

// rayCluster pods are one gang with a sub-group for the head and for each
// worker group, which must have its minReplicas; more come and go with the
// autoscaler.
func rayCluster(in *input) kube.Membership {
	in.refuseMinMember("minReplicas of a worker group says it")
	g := in.group("", 1)
	g.Spec.MinMember = nil
	name := in.upper(v1alpha1.AnnotationTopology)
	head := in.at("spec.headGroupSpec.template").annotations()
	g.Spec.SubGroups = append(g.Spec.SubGroups, v1alpha1.SubGroup{
		Name: rayHeadGroup, MinMember: new(int32(1)), Topology: in.constraint(fixed(head), topologyKeys, name),
	})
	m := kube.Membership{Group: g, SubGroup: in.pod.Labels[labelRayGroup]}
	if in.pod.Labels[labelRayNodeType] == "head" {
		m.SubGroup, m.Leader = rayHeadGroup, true
	}
	known := m.SubGroup == rayHeadGroup
	for _, w := range in.at("spec.workerGroupSpecs").list() {
		s := v1alpha1.SubGroup{
			Name: w.get("groupName").text(), MinMember: new(int32(in.rayWorkers(w))),
			Topology: in.constraint(fixed(w.get("template").annotations()), topologyKeys, name),
		}
		g.Spec.SubGroups = append(g.Spec.SubGroups, s)
		known = known || s.Name == m.SubGroup
	}
	if !known {
		in.failf("spec.workerGroupSpecs has no group %q, must have the one that the pod's label %s names", m.SubGroup, labelRayGroup)
	}
	return m
}

// rayWorkers is how many pods of a worker group must start with the cluster. Of
// replicas, which the API server sets to 0 where nobody does, KubeRay makes at least
// minReplicas and at most maxReplicas.
func (in *input) rayWorkers(w field) int {
	least := w.get("minReplicas").count(0)
	replicas := cmp.Or(w.get("replicas").count(0), least)
	switch {
	case w.get("suspend").flag():
		return 0
	case least > replicas:
		w.get("minReplicas").wrong("at most replicas, which is " + shown(replicas))
	case least == 0:
		least = replicas
	}
	least = min(least, w.get("maxReplicas").capped(least))
	return w.get("numOfHosts").times(least)
}

// fixed looks keys up in the annotations of a template alone.
func fixed(annotations map[string]string) lookup {
	return func(key string) string { return valueIn(annotations, nil, key) }
}
