// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPoliciesTypeCheck: the API server's own type checker finds nothing in the
// policies, such as a field that a pod does not have.
func TestPoliciesTypeCheck(t *testing.T) {
	ctx := t.Context()
	policies := server.core().AdmissionregistrationV1().ValidatingAdmissionPolicies()
	list, err := policies.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, p := range list.Items {
		if !strings.HasPrefix(p.Name, "fairslice-") {
			continue
		}
		checked++
		err := server.waitFor(ctx, "type check of "+p.Name, func() error {
			got, err := policies.Get(ctx, p.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got.Status.ObservedGeneration != got.Generation || got.Status.TypeChecking == nil {
				return errors.New("not done")
			}
			for _, w := range got.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("policy %s, %s: %s", p.Name, w.FieldRef, w.Warning)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if checked == 0 {
		t.Error("no policy named fairslice-… is installed")
	}
}

// TestEveryNameIsKnown: the policy that warns about unknown names knows all labels
// and annotations of the API but those of nodes and of our own PodGroups.
func TestEveryNameIsKnown(t *testing.T) {
	elsewhere := []string{"gpus", "gpu-room", "gpu.model", "gpu.count", "gpu.memory", "gpu-isolation", "cordoned-gpus", "gang"}
	paths, err := filepath.Glob("../../api/v1alpha1/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	var want []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:Label|Annotation)\w+ += Group \+ "/(.+)"`).FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(elsewhere, m[1]) {
				want = append(want, m[1])
			}
		}
	}
	policy, err := server.core().AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), "fairslice-names", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`[\w.-]+`).FindAllString(policy.Spec.Variables[0].Expression, -1)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || policy.Spec.Variables[0].Name != "known" {
		t.Errorf("the policy knows %q, the API has %q", got, want)
	}
}
