// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// lookup is a way to ask for the value of an annotation or label.
type lookup func(key string) string

// valueIn reads an annotation, else a label, else what another scheduler's
// users wrote for the same purpose.
func valueIn(annotations, labels map[string]string, key string) string {
	value := cmp.Or(annotations[key], labels[key])
	if alias, ok := migrated[key]; ok && value == "" {
		value = cmp.Or(annotations[alias], labels[alias])
	}
	return value
}

func valueOf(o *unstructured.Unstructured, key string) string {
	return valueIn(o.GetAnnotations(), o.GetLabels(), key)
}

// upper asks the rule's object and those above it, the outermost first: it
// stands for the whole gang.
func (in *input) upper(key string) string {
	for i := len(in.above) - 1; i >= 0; i-- {
		if v := valueOf(in.above[i], key); v != "" {
			return v
		}
	}
	if in.owner != nil {
		return valueOf(in.owner, key)
	}
	return ""
}

// fromOwners asks every object around the pod, the outermost first.
func (in *input) fromOwners(key string) string {
	if v := in.upper(key); v != "" {
		return v
	}
	for i := len(in.below) - 1; i >= 0; i-- {
		if v := valueOf(in.below[i], key); v != "" {
			return v
		}
	}
	return ""
}

// any asks the pod too, last.
func (in *input) any(key string) string {
	return cmp.Or(in.fromOwners(key), in.podValue(key))
}

func (in *input) podValue(key string) string {
	return valueIn(in.pod.Annotations, in.pod.Labels, key)
}

// template asks a pod template, then the pods themselves.
func (in *input) template(annotations map[string]string) lookup {
	return func(key string) string { return cmp.Or(valueIn(annotations, nil, key), in.podValue(key)) }
}

// levelKeys are the two annotations that name levels of a topology.
type levelKeys struct{ required, preferred string }

var (
	topologyKeys = levelKeys{v1alpha1.AnnotationTopologyRequired, v1alpha1.AnnotationTopologyPreferred}
	segmentKeys  = levelKeys{v1alpha1.AnnotationSegmentTopologyRequired, v1alpha1.AnnotationSegmentTopologyPreferred}
)

// constraint reads a topology constraint, nil for none. topology is the name to
// use where from has none.
func (in *input) constraint(from lookup, keys levelKeys, topology string) *v1alpha1.TopologyConstraint {
	c := v1alpha1.TopologyConstraint{
		Name: cmp.Or(from(v1alpha1.AnnotationTopology), topology), Required: from(keys.required), Preferred: from(keys.preferred),
	}
	switch levels := c.Required != "" || c.Preferred != ""; {
	case !levels:
		return nil
	case c.Name == "":
		in.failf("annotation %s is not set, must be the name of a Topology because a level of one is asked for", v1alpha1.AnnotationTopology)
		return nil
	}
	return &c
}
