// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/fit"
)

// TestIsolationIsObeyed: a pod's minimum and a node's level are ranked alike, as the
// API ranks them, and a node below the minimum is refused for that reason alone.
func TestIsolationIsObeyed(t *testing.T) {
	config := DefaultConfig()
	levels := []string{"", v1alpha1.IsolationNone, v1alpha1.IsolationWatch, v1alpha1.IsolationIntercept, v1alpha1.IsolationMPS, v1alpha1.IsolationCgroup, v1alpha1.IsolationMIG}
	for _, asked := range levels {
		p := podOf("p", args{}, time.Unix(0, 0))
		if asked != "" {
			p.Annotations = map[string]string{v1alpha1.AnnotationMinIsolation: asked}
		}
		facts := config.factsOf(p)
		if facts.invalid != nil {
			t.Errorf("minimum %q: %s", asked, facts.invalid.Message)
		}
		if rank, err := v1alpha1.ParseIsolation(asked); asked != "" && (err != nil || rank != facts.pod.MinIsolation) {
			t.Errorf("minimum %q is %d here, %d in the API, %v", asked, facts.pod.MinIsolation, rank, err)
		}
		for _, offered := range levels {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if offered != "" {
				n.Labels = map[string]string{v1alpha1.LabelGPUIsolation: offered}
			}
			node := config.nodeFactsOf(n).node
			enough := node.Isolation >= facts.pod.MinIsolation
			want := max(levelOf(t, offered), 0) >= max(levelOf(t, asked), 0)
			if enough != want {
				t.Errorf("minimum %q on a node with %q: accepted %t, want %t", asked, offered, enough, want)
			}
		}
	}
	p := podOf("p", args{}, time.Unix(0, 0))
	p.Annotations = map[string]string{v1alpha1.AnnotationMinIsolation: "hard"}
	if f := config.factsOf(p); f.invalid == nil || !strings.Contains(f.invalid.Message, `annotation fairslice.io/min-gpu-isolation is "hard", must be mig, cgroup, mps, intercept, watch or none`) {
		t.Errorf("a level that does not exist: %+v", f.invalid)
	}
	if got := fit.TooWeakIsolation.String(); got != "isolation level too weak" {
		t.Errorf("the reason reads %q", got)
	}
}

func levelOf(t *testing.T, level string) int {
	t.Helper()
	if level == "" {
		return 0
	}
	rank, err := v1alpha1.ParseIsolation(level)
	if err != nil {
		t.Fatal(err)
	}
	return rank
}
