// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

func TestControlPlaneKilledInAWaveOfPods(t *testing.T) {
	f := use(t, stack.A100("n0", 8), stack.A100("n1", 8), stack.A100("n2", 8), stack.A100("n3", 8))
	f.gang("g", "team", 8)
	f.create(append(slices("s", 64, 25), members("g", "team", 8)...)...)
	for i := range 3 {
		time.Sleep(time.Duration(i) * 150 * time.Millisecond)
		f.must(f.Kill(stack.ControlPlane))
		f.must(f.Restart(f.ctx, stack.ControlPlane))
	}
	f.eventuallyBound(60*time.Second, "", 72)
	var total int64
	for _, milli := range f.held() {
		total += milli
	}
	if total != 24000 {
		t.Errorf("assignments hold %d thousandths of GPUs, want 24000", total)
	}
	f.consistent()
}

func TestAPIServerStoppedInAWaveOfPods(t *testing.T) {
	f := use(t, stack.A100("n0", 8), stack.A100("n1", 8))
	f.create(slices("s", 48, 25)...)
	f.must(f.Kill(bed.APIServer))
	time.Sleep(2 * time.Second)
	f.must(f.Restart(f.ctx, bed.APIServer))
	f.eventuallyBound(90*time.Second, "s-", 48)
	f.held()
	f.consistent()
}

// TestExtenderDown guards report R89.
func TestExtenderDown(t *testing.T) {
	f := use(t, stack.A100("n0", 2))
	f.queue("full", map[string]any{"limit": map[string]any{"gpu": int64(0)}})
	f.must(f.Kill(stack.ControlPlane))
	f.create(
		stack.Pod("plain"),
		stack.Pod("over", stack.Queue("full"), stack.Whole(1)),
		stack.Pod("within", stack.Queue("team"), stack.Whole(1)),
	)
	f.eventuallyBound(10*time.Second, "plain", 1)
	f.always(3*time.Second, func() string {
		if n := f.boundCount("over") + f.boundCount("within"); n != 0 {
			return fmt.Sprintf("%d GPU pods are bound while nobody keeps the account", n)
		}
		return ""
	})
	f.must(f.Restart(f.ctx, stack.ControlPlane))
	f.eventuallyBound(30*time.Second, "within", 1)
	f.eventuallyWaits(10*time.Second, "over", "queue full", "limit of 0 GPUs")
}

// TestRefusedBindingStarvesNobody guards report R88.
func TestRefusedBindingStarvesNobody(t *testing.T) {
	f := use(t, stack.A100("n0", 8))
	f.forbidBinding("refused")
	f.create(stack.Pod("refused", stack.Queue("team"), stack.Whole(8)))
	time.Sleep(2 * time.Second) // it is older, and first in line
	f.create(stack.Pod("able", stack.Queue("team"), stack.Whole(8)))
	f.eventuallyBound(60*time.Second, "able", 1)
	f.eventually(20*time.Second, func() string {
		events, err := f.Client.CoreV1().Events(metav1.NamespaceDefault).List(f.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=refused"})
		f.must(err)
		for _, e := range events.Items {
			if strings.Contains(e.Message, "no binding for you") {
				return ""
			}
		}
		return "no event of pod refused holds the policy's message"
	})
}

// forbidBinding makes the API server refuse bindings of pods with the name.
func (f fixture) forbidBinding(pod string) {
	f.t.Helper()
	policies := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := f.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	const name = "no-binding.test"
	_, err := policies.Create(f.ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: fmt.Sprintf("request.name != %q", pod), Message: "no binding for you"}},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	_, err = bindings.Create(f.ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	f.t.Cleanup(func() {
		f.report(bindings.Delete(context.Background(), name, metav1.DeleteOptions{}))
		f.report(policies.Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	time.Sleep(time.Second) // until the API server has compiled it
}

// TestPodsOfNobody: what has no queue and asks for no GPU is not ours.
func TestPodsOfNobody(t *testing.T) {
	f := use(t, stack.A100("n0", 1))
	f.create(stack.Pod("plain"))
	f.eventuallyBound(10*time.Second, "plain", 1)
	p := f.pods()["plain"]
	if _, marked := p.Spec.Containers[0].Resources.Limits[v1alpha1.ResourceQueued]; marked || p.Status.NominatedNodeName != "" {
		t.Errorf("a pod of nobody was touched: %v, nominated %q", p.Spec.Containers[0].Resources.Limits, p.Status.NominatedNodeName)
	}
}

// TestGPUWithoutQueueGoesToDefault: the default queue takes pods that ask for
// GPU and name no queue; without it they wait.
func TestGPUWithoutQueueGoesToDefault(t *testing.T) {
	f := use(t, stack.A100("n0", 4))
	f.create(stack.Pod("unnamed", stack.Slice(25)))
	f.eventuallyBound(15*time.Second, "unnamed", 1)
	f.create(stack.Pod("misspelt", stack.Queue("taem"), stack.Slice(25)))
	f.eventuallyWaits(15*time.Second, "misspelt", "queue taem does not exist")
	f.queue("taem", map[string]any{})
	f.eventuallyBound(15*time.Second, "misspelt", 1)
}

// TestLimitsHoldAtEveryLevel: a parent's limit holds for the sum of its
// children.
func TestLimitsHoldAtEveryLevel(t *testing.T) {
	f := use(t, stack.A100("n0", 8))
	gpu := func(n int64) map[string]any { return map[string]any{"gpu": n} }
	f.queue("org", map[string]any{"limit": gpu(3)})
	f.queue("left", map[string]any{"parent": "org", "limit": gpu(2)})
	f.queue("right", map[string]any{"parent": "org"})
	ask := func(name, queue string) *corev1.Pod { return stack.Pod(name, stack.Queue(queue), stack.Whole(1)) }
	f.create(ask("l-0", "left"), ask("l-1", "left"))
	f.eventuallyBound(15*time.Second, "l-", 2)
	f.create(ask("l-2", "left"), ask("r-0", "right"))
	f.eventuallyBound(15*time.Second, "r-", 1)
	f.eventuallyWaits(15*time.Second, "l-2", "queue left", "limit of 2 GPUs")
	f.create(ask("r-1", "right"))
	f.eventuallyWaits(15*time.Second, "r-1", "queue org", "limit of 3 GPUs")
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "l-0", metav1.DeleteOptions{}))
	f.eventuallyBound(15*time.Second, "", 3)
}
