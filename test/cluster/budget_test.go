// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fairslice/fairslice/test/stack"
)

// budget keeps that many pods of a ReplicaSet available, and waits until the
// disruption controller has counted them.
func (f fixture) budget(set string, minAvailable, allowed int) (drop func()) {
	f.t.Helper()
	budgets := f.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	_, err := budgets.Create(f.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: set},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt(minAvailable)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"set": set}},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error { return budgets.Delete(ctx, set, metav1.DeleteOptions{}) })
	f.eventually(20*time.Second, func() string {
		b, err := budgets.Get(f.ctx, set, metav1.GetOptions{})
		f.must(err)
		if b.Status.ObservedGeneration == 0 || int(b.Status.DisruptionsAllowed) != allowed {
			return fmt.Sprintf("budget %s allows %d disruptions, want %d", set, b.Status.DisruptionsAllowed, allowed)
		}
		return ""
	})
	return func() { f.must(budgets.Delete(f.ctx, set, metav1.DeleteOptions{})) }
}

// TestBudgetThatForbidsIsObeyed: nobody is evicted, the claimant is told which
// budget it waits for, and gets its room once the budget is gone.
func TestBudgetThatForbidsIsObeyed(t *testing.T) {
	f := use(t, stack.A100("n0", 3))
	f.queue("owner", map[string]any{"quota": gpus(3)})
	seen := f.evictions()
	f.replicas("d", 3, stack.Queue("team"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"d-": 3})
	drop := f.budget("d", 3, 0)
	f.create(stack.Pod("claimant", stack.Queue("owner"), stack.Whole(2)))
	f.eventuallyWaits(20*time.Second, "claimant", "disruption budget default/d does not allow the evictions", "reclaim")
	f.cycles(20)
	seen.want(map[string]int{})
	drop()
	f.eventuallyRun(30*time.Second, map[string]int{"claimant": 1, "d-": 1})
	seen.want(map[string]int{"d": 2})
	f.consistent()
}

// TestBudgetIsSpentOnce guards report R37: of three pods that a budget lets go
// one by one, one goes, and the next only after its replacement runs. The API server
// is not asked for more.
func TestBudgetIsSpentOnce(t *testing.T) {
	f := use(t, stack.A100("n0", 3), stack.A100("n1", 1))
	f.queue("owner", map[string]any{"quota": gpus(4)})
	seen := f.evictions()
	f.replicas("d", 3, stack.Queue("team"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"d-": 3})
	f.replicas("e", 1, stack.Queue("team"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"e-": 1})
	f.budget("d", 2, 1)
	before := f.refusedEvictions()
	ask := func(name string) { f.create(stack.Pod(name, stack.Queue("owner"), stack.Whole(1))) }
	ask("p1")
	ask("p2")
	f.eventuallyRun(30*time.Second, map[string]int{"p1": 1, "p2": 1, "d-": 2, "e-": 0})
	ask("p3")
	f.eventuallyWaits(20*time.Second, "p3", "disruption budget default/d does not allow the evictions")
	f.cycles(20)
	seen.want(map[string]int{"d": 1, "e": 1})
	if refused := f.refusedEvictions() - before; refused > 0 {
		t.Errorf("the API server refused %d evictions that were more than the budget allows", refused)
	}

	f.must(f.AddGPUNodes(f.ctx, stack.A100("n2", 3)))
	f.eventuallyRun(30*time.Second, map[string]int{"p1": 1, "p2": 1, "p3": 1, "d-": 3, "e-": 1})
	f.consistent()
}
