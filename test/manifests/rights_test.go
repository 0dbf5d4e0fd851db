// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// identities are those whose rights our manifests define.
var identities = map[string]string{
	"controlplane": "system:serviceaccount:fairslice-system:fairslice-controlplane",
	"plugin":       "system:serviceaccount:fairslice-system:fairslice-device-plugin",
}

// can asks the API server's authorizer one question a line:
//
//	<verb> <resource>[/<subresource>][.<group>] [in <namespace>] [named <name>]
func can(ctx context.Context, t *testing.T, who, questions string) string {
	user, groups := who, []string{"system:authenticated"}
	if id, ok := identities[who]; ok {
		user, groups = id, append(groups, "system:serviceaccounts")
	}
	var out strings.Builder
	for line := range strings.Lines(questions) {
		line = strings.TrimSpace(line)
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: groups, ResourceAttributes: attributes(t, line),
		}}
		got, err := server.core().AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		verdict := "no"
		if got.Status.Allowed {
			verdict = "yes"
		}
		fmt.Fprintf(&out, "%-3s %s\n", verdict, line)
	}
	return out.String()
}

func attributes(t *testing.T, line string) *authorizationv1.ResourceAttributes {
	words := strings.Fields(line)
	if len(words) < 2 || len(words)%2 != 0 {
		t.Fatalf("question %q must be: <verb> <resource> [in <namespace>] [named <name>]", line)
	}
	a := &authorizationv1.ResourceAttributes{Verb: words[0]}
	resource, sub, _ := strings.Cut(words[1], "/")
	if sub != "" {
		sub, a.Group, _ = strings.Cut(sub, ".")
	} else {
		resource, a.Group, _ = strings.Cut(resource, ".")
	}
	a.Resource, a.Subresource = resource, sub
	for i := 2; i < len(words); i += 2 {
		switch words[i] {
		case "in":
			a.Namespace = words[i+1]
		case "named":
			a.Name = words[i+1]
		default:
			t.Fatalf("question %q: unknown word %s", line, words[i])
		}
	}
	return a
}

// TestNoRoleIsOpenEnded: a rule with a wildcard would make every other check of
// rights worthless.
func TestNoRoleIsOpenEnded(t *testing.T) {
	ctx := t.Context()
	roles, err := server.core().RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, role := range roles.Items {
		if !strings.HasPrefix(role.Name, "fairslice-") {
			continue
		}
		seen++
		for _, rule := range role.Rules {
			words := strings.Join(append(append(append([]string{}, rule.Verbs...), rule.Resources...), rule.APIGroups...), " ")
			if strings.Contains(words, "*") {
				t.Errorf("cluster role %s has a wildcard: %v", role.Name, rule)
			}
			if strings.Contains(words, "secrets") {
				t.Errorf("cluster role %s reads secrets: %v", role.Name, rule)
			}
		}
	}
	if seen < 5 {
		t.Errorf("found %d cluster roles named fairslice-…, expected those of manifests/rbac", seen)
	}
}
