// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/core/model"
)

// labelNamespace stands among a pod's labels for its namespace, so that pod
// affinity stays within it. No real label has an empty prefix.
const labelNamespace = "/namespace"

func labelsWithNamespace(pod *corev1.Pod) map[string]string {
	labels := make(map[string]string, len(pod.Labels)+1)
	maps.Copy(labels, pod.Labels)
	labels[labelNamespace] = pod.Namespace
	return labels
}

// nodeTerms combines nodeSelector with the required node affinity: every
// alternative of the affinity holds together with the selector.
func nodeTerms(pod *corev1.Pod) [][]model.Requirement {
	var selector []model.Requirement
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		selector = append(selector, model.Requirement{Key: key, Op: model.OpIn, Values: []string{pod.Spec.NodeSelector[key]}})
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		if selector == nil {
			return nil
		}
		return [][]model.Requirement{selector}
	}
	terms := [][]model.Requirement{}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			continue // an empty term matches no node
		}
		all := slices.Clone(selector)
		for _, e := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			all = append(all, model.Requirement{Key: e.Key, Op: model.Operator(e.Operator), Values: e.Values})
		}
		terms = append(terms, all)
	}
	if len(terms) == 0 {
		return [][]model.Requirement{{}} // no alternative is left: no node
	}
	return terms
}

func tolerations(list []corev1.Toleration) []model.Toleration {
	var out []model.Toleration
	for _, t := range list {
		out = append(out, model.Toleration{
			Key: t.Key, Value: t.Value, Effect: string(t.Effect),
			Exists: t.Operator == corev1.TolerationOpExists,
		})
	}
	return out
}

// podAffinities translates the required terms that core can judge: equality of
// labels, in the pod's own namespace or one other. kube-scheduler judges the
// rest, and the node that it refuses is left out for a while.
func podAffinities(pod *corev1.Pod) []model.PodAffinity {
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return nil
	}
	var out []model.PodAffinity
	collect := func(terms []corev1.PodAffinityTerm, anti bool) {
		for _, term := range terms {
			if labels, ok := equality(term, pod); ok {
				out = append(out, model.PodAffinity{MatchLabels: labels, TopologyKey: term.TopologyKey, Anti: anti})
			}
		}
	}
	if affinity.PodAffinity != nil {
		collect(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, false)
	}
	if affinity.PodAntiAffinity != nil {
		collect(affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, true)
	}
	return out
}

// equality returns the labels that a term demands, false if it demands
// anything but equality.
func equality(term corev1.PodAffinityTerm, pod *corev1.Pod) (map[string]string, bool) {
	if term.LabelSelector == nil || term.NamespaceSelector != nil || len(term.Namespaces) > 1 || len(term.MismatchLabelKeys) > 0 {
		return nil, false
	}
	labels := make(map[string]string, len(term.LabelSelector.MatchLabels)+1)
	maps.Copy(labels, term.LabelSelector.MatchLabels)
	for _, e := range term.LabelSelector.MatchExpressions {
		if e.Operator != metav1.LabelSelectorOpIn || len(e.Values) != 1 {
			return nil, false
		}
		labels[e.Key] = e.Values[0]
	}
	for _, key := range term.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			labels[key] = value
		}
	}
	labels[labelNamespace] = pod.Namespace
	if len(term.Namespaces) == 1 {
		labels[labelNamespace] = term.Namespaces[0]
	}
	return labels, true
}
