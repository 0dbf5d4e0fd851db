// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/stack"
)

// TestPaceOfAQueue: of four victims in two queues below one that allows two
// evictions a minute, two go at once; the claimants that are left are told why
// they wait, and the third goes when the minute is over.
func TestPaceOfAQueue(t *testing.T) {
	f := use(t, stack.A100("n0", 4))
	f.queue("owner", map[string]any{"quota": gpus(4)})
	f.queue("top", map[string]any{"evictionsPerMinute": int64(2)})
	f.queue("top-x", map[string]any{"parent": "top"})
	f.queue("top-y", map[string]any{"parent": "top"})
	f.replicas("x", 2, stack.Queue("top-x"), stack.Whole(1))
	f.replicas("y", 2, stack.Queue("top-y"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"x-": 2, "y-": 2})
	seen := f.evictions()
	for i := range 4 {
		f.create(stack.Pod(fmt.Sprintf("claimant-%d", i), stack.Queue("owner"), stack.Whole(1)))
	}
	f.eventually(30*time.Second, func() string {
		if n := f.running("claimant-"); n != 2 {
			return fmt.Sprintf("%d claimants run, want 2; %s", n, f.firstReason("claimant-"))
		}
		return ""
	})
	first := seen.all()
	if len(first) != 2 {
		t.Fatalf("%d pods were evicted, want the two that a minute allows", len(first))
	}
	for name, p := range f.pods() {
		if len(name) > 9 && name[:9] == "claimant-" && p.Spec.NodeName == "" {
			f.eventuallyWaits(20*time.Second, name, "room by reclaim has to wait: no more than 2 evictions a minute in queue top")
		}
	}
	f.cycles(10)
	f.always(time.Until(first[0].at.Add(45*time.Second)), func() string {
		if n := len(seen.all()); n != 2 {
			return fmt.Sprintf("%d pods were evicted within the minute, 2 are allowed", n)
		}
		return ""
	})
	f.eventually(45*time.Second, func() string {
		if n := f.running("claimant-"); n != 4 {
			return fmt.Sprintf("%d claimants run, want all; %s", n, f.firstReason("claimant-"))
		}
		return ""
	})
	all := seen.all()
	if len(all) != 4 || all[2].at.Sub(first[0].at) < 59*time.Second {
		t.Errorf("%d pods were evicted, the third %s after the first; want four, two a minute", len(all), all[2].at.Sub(first[0].at))
	}
	f.consistent()
}

// TestPatienceOfAQueue: a workload waits for free room as long as the nearest
// queue says before another is evicted for it, takes free room at once, and the
// user is told how long it will be patient.
func TestPatienceOfAQueue(t *testing.T) {
	f := use(t, stack.A100("n0", 1))
	f.queue("owner", map[string]any{"quota": gpus(2), "preemptionDelay": "8s"})
	f.queue("owner-a", map[string]any{"parent": "owner", "quota": gpus(2)})
	f.replicas("v", 1, stack.Queue("team"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"v-": 1})
	seen := f.evictions()
	began := time.Now()
	f.create(stack.Pod("claimant", stack.Queue("owner-a"), stack.Whole(1)))
	f.eventuallyWaits(6*time.Second, "claimant", "room is taken from others once it has waited 8s")
	f.eventuallyRun(30*time.Second, map[string]int{"claimant": 1})
	evicted := seen.all()
	if len(evicted) != 1 || evicted[0].at.Sub(began) < 6*time.Second {
		t.Fatalf("evicted %v after %s, want one pod after 8 s of patience (creation times have whole seconds)", evicted, evicted[0].at.Sub(began))
	}
	f.must(f.AddGPUNodes(f.ctx, stack.A100("n1", 1)))
	f.eventuallyRun(6*time.Second, map[string]int{"claimant": 1, "v-": 1})
	f.must(f.AddGPUNodes(f.ctx, stack.A100("n2", 1)))
	f.create(stack.Pod("second", stack.Queue("owner-a"), stack.Whole(1)))
	f.eventuallyRun(6*time.Second, map[string]int{"claimant": 1, "second": 1, "v-": 1})
	seen.want(map[string]int{"v": 1})
	f.consistent()
}

// TestBackoffOfAQueue: who was evicted and came back is left alone for as long as
// its queue says, although the claimant may take its room, and no longer.
func TestBackoffOfAQueue(t *testing.T) {
	f := use(t, stack.A100("n0", 1))
	f.queue("owner", map[string]any{"quota": gpus(1)})
	f.queue("lender", map[string]any{"evictionBackoff": "25s"})
	f.replicas("v", 1, stack.Queue("lender"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"v-": 1})
	seen := f.evictions()
	f.create(stack.Pod("first", stack.Queue("owner"), stack.Whole(1)))
	f.eventuallyRun(20*time.Second, map[string]int{"first": 1})
	f.deleteNow("first")
	f.eventuallyRun(20*time.Second, map[string]int{"v-": 1})

	f.create(stack.Pod("second", stack.Queue("owner"), stack.Whole(1)))
	f.eventuallyWaits(10*time.Second, "second", "1 GPU asked")
	f.cycles(10)
	spared := seen.all()[0].at.Add(25 * time.Second)
	f.always(time.Until(spared)-2*time.Second, func() string {
		if n := len(seen.all()); n != 1 {
			return fmt.Sprintf("%d evictions within the back-off, want 1", n)
		}
		return ""
	})
	f.eventuallyRun(30*time.Second, map[string]int{"second": 1})
	all := seen.all()
	if gap := all[1].at.Sub(all[0].at); len(all) != 2 || gap < 24*time.Second || gap > 45*time.Second {
		t.Errorf("%d evictions, the second %s after the first; want two, 25 s apart", len(all), gap)
	}
	f.consistent()
}

// deleteNow removes a pod without grace.
func (f fixture) deleteNow(name string) {
	f.t.Helper()
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}
