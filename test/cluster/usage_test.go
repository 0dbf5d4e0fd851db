// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// contest lets a pod of queue older and one of queue younger wait for the only
// GPU while its node is cordoned, and returns the queue whose pod got it. Both
// pods are gone then.
func (f fixture) contest(round int) (winner string) {
	f.t.Helper()
	f.cordon("n0", true)
	names := map[string]string{"older": fmt.Sprintf("older-%d", round), "younger": fmt.Sprintf("younger-%d", round)}
	for _, queue := range []string{"older", "younger"} {
		f.create(stack.Pod(names[queue], stack.Queue(queue), stack.Whole(1)))
	}
	for _, name := range names {
		f.eventuallyWaits(20*time.Second, name, "cordoned")
	}
	f.cordon("n0", false)
	f.eventually(20*time.Second, func() string {
		for queue, name := range names {
			if f.pods()[name].Spec.NodeName != "" {
				winner = queue
			}
		}
		if winner == "" {
			return "the GPU is free and nobody got it; " + f.firstReason("")
		}
		return ""
	})
	for _, name := range names {
		f.deleteNow(name)
	}
	f.eventually(20*time.Second, func() string {
		if n := len(f.pods()); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
	return winner
}

func (f fixture) cordon(node string, yes bool) {
	f.t.Helper()
	body := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, yes)
	_, err := f.Client.CoreV1().Nodes().Patch(f.ctx, node, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	f.must(err)
}

// usedPart is the part of the cluster's GPUs that a queue used, as its status
// says.
func (f fixture) usedPart(queue string) (thousandths int64) {
	f.t.Helper()
	u, err := f.Dynamic.Resource(v1alpha1.QueueResource).Get(f.ctx, queue, metav1.GetOptions{})
	f.must(err)
	var q v1alpha1.Queue
	f.must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &q))
	part := q.Status.Usage["gpu"]
	return part.MilliValue()
}

// TestPastUsageTurnsTheOrder: of two equal queues the older one gets the only GPU,
// until it has used it while the other had nothing; that is remembered over an
// orderly restart of the control plane and over a kill -9, and turns the order.
func TestPastUsageTurnsTheOrder(t *testing.T) {
	f := use(t, stack.A100("n0", 1))
	f.queue("older", map[string]any{"overQuotaWeight": gpus(1)})
	time.Sleep(1100 * time.Millisecond) // creation times have whole seconds
	f.queue("younger", map[string]any{"overQuotaWeight": gpus(1)})
	if got := f.contest(0); got != "older" {
		t.Fatalf("without past usage queue %s is served first, want the older one", got)
	}

	component, _ := f.withFlags("--usage-half-life=1h", "--usage-window=24h")
	f.afterwardsForgetUsage()
	f.create(stack.Pod("runs", stack.Queue("older"), stack.Whole(1)))
	f.eventuallyRun(20*time.Second, map[string]int{"runs": 1})
	time.Sleep(15 * time.Second)
	f.deleteNow("runs")
	f.must(f.Signal(component, syscall.SIGTERM))
	f.must(f.Wait(f.ctx, component))
	f.must(f.Restart(f.ctx, component))
	before := int64(0)
	f.eventually(20*time.Second, func() string {
		if before = f.usedPart("older"); before == 0 {
			return "the status of queue older shows no usage after the restart"
		}
		return ""
	})
	if idle := f.usedPart("younger"); idle != 0 {
		t.Errorf("queue younger used %d/1000 though it never ran", idle)
	}
	if got := f.contest(1); got != "younger" {
		t.Errorf("after an orderly restart queue %s is served first, want the one that used nothing; older used %d/1000", got, before)
	}
	f.must(f.Kill(component))
	f.must(f.Restart(f.ctx, component))
	if got := f.contest(2); got != "younger" {
		t.Errorf("after a kill queue %s is served first, want the one that used less", got)
	}
	maps, err := f.Client.CoreV1().ConfigMaps(stack.Namespace).Get(f.ctx, "fairslice-usage", metav1.GetOptions{})
	f.must(err)
	if size := len(maps.BinaryData["usage"]); size == 0 || size > 64<<10 {
		t.Errorf("what the queues used takes %d bytes", size)
	}
	log, err := f.Logs(component)
	f.must(err)
	if strings.Contains(log, "cannot be used") {
		t.Errorf("what was stored could not be read:\n%s", log)
	}
	f.consistent()
}

// afterwardsForgetUsage removes what was stored, for the tests that come.
func (f fixture) afterwardsForgetUsage() {
	f.afterwards(func(ctx context.Context) error {
		return f.Client.CoreV1().ConfigMaps(stack.Namespace).Delete(ctx, "fairslice-usage", metav1.DeleteOptions{})
	})
}
