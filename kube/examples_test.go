// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// TestQuickStartOnEveryModel: the notebook of docs/quickstart.md starts beside the
// queues of the examples, whatever GPUs the cluster has.
func TestQuickStartOnEveryModel(t *testing.T) {
	for _, model := range []string{"Tesla-T4", "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3"} {
		p := newPlayer()
		n := nodeOf("n1")
		v, err := v1alpha1.DecodeInventory(inventoryOf("n1", 1, 40960, 1))
		if err != nil {
			t.Fatal(err)
		}
		v.GPUs[0].Model = model
		text, err := v.Encode()
		if err != nil {
			t.Fatal(err)
		}
		n.Annotations = map[string]string{v1alpha1.AnnotationGPUs: text}
		setCount(n.Status.Allocatable, v1alpha1.ResourceGPUSlice, 100)
		p.ledger.SetNode(n)
		for _, q := range examples[v1alpha1.Queue](t, "queues.yaml") {
			p.ledger.SetQueue(&q)
		}
		for _, pod := range examples[corev1.Pod](t, "slice.yaml") {
			pod.UID = "u"
			for i := range pod.Spec.Containers {
				pod.Spec.Containers[i].Resources.Requests = pod.Spec.Containers[i].Resources.Limits
			}
			p.ledger.SetPod(&pod)
		}
		p.ledger.Decide()
		if v, _ := p.ledger.Lookup("u"); !v.Startable {
			t.Errorf("on %s the notebook waits: %+v", model, v.Reason)
		}
	}
}

// examples reads the objects of a file as strictly as the API server does.
func examples[T any](t *testing.T, file string) (out []T) {
	t.Helper()
	raw, err := os.ReadFile("../manifests/examples/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		var v T
		if err := yaml.UnmarshalStrict(document, &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, v)
	}
	return out
}
