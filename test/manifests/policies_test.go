// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"errors"
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
