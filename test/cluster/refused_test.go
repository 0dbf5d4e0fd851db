// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/stack"
)

// keep makes a policy of the cluster's that denies the eviction of pods whose name
// has the prefix, and waits until it does. drop takes it away.
func (f fixture) keep(prefix string) (drop func()) {
	f.t.Helper()
	policies := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(f.ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("!object.metadata.name.startsWith(%q)", prefix),
				Message:    "the owner of this pod asked to keep it", Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error { return policies.Delete(ctx, "keep", metav1.DeleteOptions{}) })
	_, err = bindings.Create(f.ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "keep", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error { return bindings.Delete(ctx, "keep", metav1.DeleteOptions{}) })
	evict := func() error {
		return f.Client.PolicyV1().Evictions(metav1.NamespaceDefault).Evict(f.ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: prefix + "nobody", Namespace: metav1.NamespaceDefault},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		})
	}
	f.eventually(20*time.Second, func() string {
		if err := evict(); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("the policy is not in force: %v", err)
		}
		return ""
	})
	return func() { f.must(errors.Join(bindings.Delete(f.ctx, "keep", metav1.DeleteOptions{}))) }
}

// TestPolicyThatDeniesAnEviction: a pod that the cluster's own policy keeps is not
// evicted; the claimant gets another victim's room, the next one is told which pod
// stays and why, nobody asks again and again, and once the policy is gone it has
// its turn.
func TestPolicyThatDeniesAnEviction(t *testing.T) {
	f := use(t, stack.A100("n0", 1), stack.A100("n1", 1))
	f.queue("owner", map[string]any{"quota": gpus(2)})
	f.queue("lender", map[string]any{})
	f.create(stack.Pod("kept", stack.Queue("lender"), stack.Whole(1)))
	f.eventuallyRun(20*time.Second, map[string]int{"kept": 1})
	time.Sleep(1100 * time.Millisecond) // creation times have whole seconds: the older pod is the later victim
	f.create(stack.Pod("other", stack.Queue("lender"), stack.Whole(1)))
	f.eventuallyRun(20*time.Second, map[string]int{"kept": 1, "other": 1})
	drop := f.keep("kept")
	seen := f.evictions()
	f.create(stack.Pod("first", stack.Queue("owner"), stack.Whole(1)))
	f.eventuallyRun(30*time.Second, map[string]int{"first": 1, "kept": 1})
	seen.want(map[string]int{"other": 1})

	f.create(stack.Pod("second", stack.Queue("owner"), stack.Whole(1)))
	f.eventuallyWaits(30*time.Second, "second", "room by reclaim has to wait: the API server refuses to evict pod default/kept",
		"ValidatingAdmissionPolicy 'keep'", "the owner of this pod asked to keep it")
	before := f.refusedEvictions()
	f.cycles(30)
	if asked := f.refusedEvictions() - before; asked > 0 {
		t.Errorf("within 30 cycles the API server was asked %d times more", asked)
	}
	if kept := f.pods()["kept"]; kept.DeletionTimestamp != nil || kept.Spec.NodeName == "" {
		t.Errorf("the pod that may not be evicted is on node %q, deleted %v", kept.Spec.NodeName, kept.DeletionTimestamp)
	}
	drop()
	f.eventuallyRun(90*time.Second, map[string]int{"first": 1, "second": 1, "kept": 0})
	seen.want(map[string]int{"other": 1, "kept": 1})
	f.consistent()
}

// refusedEvictions counts evictions that failed, by the control plane's metrics.
func (f fixture) refusedEvictions() (n int) {
	f.t.Helper()
	text, err := f.Metrics(f.ctx)
	f.must(err)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, `fairslice_write_failures_total{kind="evictions"} `); ok {
			_, err := fmt.Sscan(rest, &n)
			f.must(err)
		}
	}
	return n
}
