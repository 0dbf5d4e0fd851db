// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fairslice/fairslice/core/model"
)

// TestClaims reads pods and prints what their containers claim, container by
// container, as the kubelet will hand it out.
func TestClaims(t *testing.T) {
	datadriven.Walk(t, "testdata/claims", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			config := DefaultConfig()
			claims, parts, err := config.claimsOf(podFromYAML(t, d.Input))
			if err != nil {
				return "error: " + err.Error()
			}
			return printClaims(claims, parts)
		})
	})
}

func printClaims(claims []model.GPUClaim, parts []part) string {
	var out strings.Builder
	for _, c := range claims {
		switch c.Kind {
		case model.WholeGPU:
			fmt.Fprintf(&out, "claim %s: %d GPU\n", c.Name, c.Count)
		case model.GPUSlice:
			fmt.Fprintf(&out, "claim %s: %d milli on each of %d GPU\n", c.Name, c.Milli, c.Count)
		case model.GPUMemory:
			fmt.Fprintf(&out, "claim %s: %d MiB on each of %d GPU\n", c.Name, c.MemoryMiB, c.Count)
		}
	}
	for _, p := range parts {
		fmt.Fprintf(&out, "  %s: %d of claim %s at %v\n", p.container, p.per, claims[p.claim].Name, p.positions)
	}
	if out.Len() == 0 {
		return "no GPU"
	}
	return out.String()
}

// podFromYAML reads a pod and fills in what the API server would.
func podFromYAML(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		t.Fatalf("the test's pod: %v", err)
	}
	if pod.Name == "" {
		pod.Name, pod.Namespace, pod.UID = "p", "default", "uid-p"
	}
	return &pod
}
