// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// Rules in CEL have a budget at run time too: the largest object that the schema
// admits must fit into it, or a user finds out first.

func TestLargestPodGroupIsAccepted(t *testing.T) {
	name := func(level, i int) string {
		return fmt.Sprintf("%s-%d-%03d", strings.Repeat("n", 57), level, i)
	}
	var groups []any
	for i := range 256 {
		level := i % 5
		g := map[string]any{"name": name(level, i/5)}
		if level > 0 {
			g["parent"] = name(level-1, i/5)
		}
		groups = append(groups, g)
	}
	accept(t, v1alpha1.PodGroupResource.Resource, "PodGroup", map[string]any{"subGroups": groups})
}

func TestLargestQueueIsAccepted(t *testing.T) {
	amounts, weights := map[string]any{}, map[string]any{}
	for i := range 32 {
		resource := fmt.Sprintf("%s.example.com/%s-%02d", strings.Repeat("d", 200), strings.Repeat("r", 60), i)
		amounts[resource], weights[resource] = "9223372036854775.807", int64(1000000)
	}
	accept(t, v1alpha1.QueueResource.Resource, "Queue", map[string]any{
		"quota": amounts, "limit": amounts, "overQuotaWeight": weights, "preemptMinRuntime": "99999h9999999m999999999.999999999s",
	})
}

func accept(t *testing.T, plural, kind string, spec map[string]any) {
	client, err := server.client(t.Context(), "admin")
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": "largest"}, "spec": spec,
	}}
	namespace := ""
	if kind == "PodGroup" {
		namespace = "plain"
	}
	_, err = client.Resource(v1alpha1.GroupVersion.WithResource(plural)).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLargePodIsAccepted(t *testing.T) {
	pod := simplePod("largest", map[string]string{"fairslice.io/queue": "crowded"}, nil)
	pod.Annotations = map[string]string{"fairslice.io/gpu-count": "16"}
	pod.Spec.Containers = nil
	for i := range 400 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "none",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"fairslice.io/gpu-slice": resource.MustParse("1600")}},
		})
		pod.Annotations[fmt.Sprintf("example.com/note-%d", i)] = "note"
	}
	got, err := server.core().CoreV1().Pods("plain").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Spec.SchedulingGates) != 1 {
		t.Errorf("the pod has %d gates, want 1", len(got.Spec.SchedulingGates))
	}
}
