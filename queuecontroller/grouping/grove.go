// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// What Grove writes on its pods and PodGangs.
const (
	labelGroveGang          = "grove.io/podgang"
	labelGroveClique        = "grove.io/podclique"
	annotationGroveTopology = "grove.io/topology-name"
)

var grovePodGang = schema.GroupKind{Group: "scheduler.grove.io", Kind: "PodGang"}

// groveGang reads a PodGang (scheduler.grove.io/v1alpha1): a sub-group for each
// of its pod groups, below one for each set of them that has a topology of its
// own.
func groveGang(in *input) kube.Membership {
	in.refuseMinMember("minReplicas of a pod group of the PodGang says it")
	g := in.group("", 1)
	g.Spec.MinMember = nil
	if class := in.at("spec.priorityClassName").text(); class != "" {
		g.Spec.PriorityClassName = class
	}
	if c := in.packed(in.at("spec.topologyConstraint")); c != nil {
		g.Spec.Topology = c
	}
	parents := map[string]string{}
	for _, f := range in.at("spec.topologyConstraintGroupConfigs").list() {
		parent := v1alpha1.SubGroup{Name: f.get("name").text(), Topology: in.packed(f.get("topologyConstraint"))}
		g.Spec.SubGroups = append(g.Spec.SubGroups, parent)
		for _, name := range f.get("podGroupNames").list() {
			parents[name.text()] = parent.Name
		}
	}
	m := kube.Membership{Group: g}
	groups := in.at("spec.podgroups").list()
	for _, f := range groups {
		name := f.get("name").text()
		g.Spec.SubGroups = append(g.Spec.SubGroups, v1alpha1.SubGroup{
			Name: name, Parent: parents[name], MinMember: new(int32(f.get("minReplicas").count(1))),
			Topology: in.packed(f.get("topologyConstraint")),
		})
		if name == in.pod.Labels[labelGroveClique] || m.SubGroup == "" && in.listed(f) {
			m.SubGroup = name
		}
	}
	if m.SubGroup == "" {
		in.failf("spec.podgroups has no group with pod %s, must list it in podReferences or have the name in the pod's label %s", in.pod.Name, labelGroveClique)
	}
	return m
}

// listed says whether a pod group refers to the pod.
func (in *input) listed(group field) bool {
	return slices.ContainsFunc(group.get("podReferences").list(), func(r field) bool {
		return r.get("name").text() == in.pod.Name && cmp.Or(r.get("namespace").text(), in.pod.Namespace) == in.pod.Namespace
	})
}

// packed reads a pack constraint.
func (in *input) packed(f field) *v1alpha1.TopologyConstraint {
	pack := f.get("packConstraint")
	c := v1alpha1.TopologyConstraint{
		Name:     cmp.Or(in.upper(annotationGroveTopology), in.upper(v1alpha1.AnnotationTopology)),
		Required: pack.get("required").text(), Preferred: pack.get("preferred").text(),
	}
	switch {
	case c.Required == "" && c.Preferred == "":
		return nil
	case c.Name == "":
		in.failf("annotation %s is not set, must be the name of a Topology because a level of one is asked for", annotationGroveTopology)
	}
	return &c
}
