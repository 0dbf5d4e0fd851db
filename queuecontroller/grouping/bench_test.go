// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// BenchmarkMembership derives the gang of one pod.
func BenchmarkMembership(b *testing.B) {
	pod := func(labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", Labels: labels}}
	}
	jobs := make([]any, 0, 100)
	for i := range 100 {
		jobs = append(jobs, map[string]any{
			"name": fmt.Sprintf("w%d", i), "template": map[string]any{"spec": map[string]any{"parallelism": int64(8)}},
		})
	}
	for _, c := range []struct {
		name  string
		owner map[string]any
		pod   *corev1.Pod
		want  string
	}{
		{"job", map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": map[string]any{"parallelism": int64(8)}}, pod(nil), "team/pod/p"},
		{
			"jobset-of-100", map[string]any{
				"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": map[string]any{"name": "j", "uid": "u"},
				"spec": map[string]any{"replicatedJobs": jobs},
			}, pod(map[string]string{labelReplicatedJob: "w7", labelJobIndex: "0"}), "team/jobset/j@u",
		},
	} {
		b.Run(c.name, func(b *testing.B) {
			owners := []*unstructured.Unstructured{{Object: c.owner}}
			rules := Rules{QueueLabel: "fairslice.io/queue"}
			b.ReportAllocs()
			for b.Loop() {
				if m := rules.Membership(c.pod, nil, owners); m.Group == nil || m.Group.Key != c.want {
					b.Fatalf("derived %+v", m)
				}
			}
		})
	}
}
