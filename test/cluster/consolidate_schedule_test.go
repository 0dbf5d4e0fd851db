// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/queuecontroller"
	"github.com/fairslice/fairslice/test/stack"
)

// withFlags starts the control plane again with more flags, until back or the end
// of the test.
func (f fixture) withFlags(flags ...string) (component string, back func()) {
	f.t.Helper()
	component, end, err := f.WithFlags(f.ctx, flags...)
	var once sync.Once
	back = func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if end != nil {
				f.report(end(ctx))
			}
		})
	}
	f.t.Cleanup(back)
	f.must(err)
	return component, back
}

// runners follows how many pods run, until stop, which returns the fewest.
func (f fixture) runners() (stop func() int) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	var mu sync.Mutex
	least := -1
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			pods, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			n := 0
			for _, p := range pods.Items {
				if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
					n++
				}
			}
			mu.Lock()
			if least < 0 || n < least {
				least = n
			}
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return func() int {
		cancel()
		<-done
		return least
	}
}

// allRun waits until that many pods are in phase Running.
func (f fixture) allRun(n int) {
	f.t.Helper()
	f.eventually(20*time.Second, func() string {
		running := 0
		for _, p := range f.pods() {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		if running != n {
			return fmt.Sprintf("%d pods run, want %d", running, n)
		}
		return ""
	})
}

// TestScheduledConsolidation: on three half-full nodes a dry run reports what it
// would move and evicts nobody; without the dry run the jobs move to the places
// that were held for them, one node is free, and no more than those that move
// ever stop.
func TestScheduledConsolidation(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4), stack.A100("n2", 4))
	f.halfFull(3, f.recreatedJob)
	f.allRun(3)
	seen := f.evictions()

	component, back := f.withFlags("--consolidate-every=1s", "--consolidate-dry-run")
	var report queuecontroller.Consolidation
	f.eventually(20*time.Second, func() string {
		f.must(f.View(f.ctx, "/consolidation", &report))
		if report.Last == nil || len(report.Last.Moves) != 1 {
			return fmt.Sprintf("the last scheduled run is %+v, want one with a move", report.Last)
		}
		return ""
	})
	gain := report.Last.GPUs[0]
	if !report.DryRun || gain.Before.LargestBlock != 2 || gain.After.LargestBlock != 4 || gain.Before.Nodes != 0 || gain.After.Nodes != 1 {
		t.Errorf("the report is %+v with the gain %+v, want a free node of four GPUs", report, gain)
	}
	out, err := f.Fairslice(f.ctx, append([]string{"consolidation"}, f.ServerFlags()...)...)
	f.must(err)
	if !strings.Contains(out, "every 1s, only reported") || !strings.Contains(out, "2, then 4") || !strings.Contains(out, "to free all GPUs of node ") {
		t.Errorf("fairslice consolidation prints\n%s", out)
	}
	metrics, err := f.Metrics(f.ctx)
	f.must(err)
	for _, line := range []string{`fairslice_consolidation_moves 1`, `when="after"} 4`, `fairslice_consolidation_runs_total{outcome="planned"}`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	f.always(3*time.Second, func() string {
		if n := len(seen.all()); n > 0 {
			return fmt.Sprintf("a dry run evicted %d pods", n)
		}
		return ""
	})
	log, err := f.Logs(component)
	f.must(err)
	if !strings.Contains(log, "scheduled move") || !strings.Contains(log, "dryRun=true") {
		t.Errorf("the log of the dry run is\n%s", log)
	}
	back()

	least := f.runners()
	f.withFlags("--consolidate-every=1s")
	f.eventually(30*time.Second, func() string {
		if n := len(seen.all()); n != 1 {
			return fmt.Sprintf("%d pods were moved, want 1", n)
		}
		return ""
	})
	f.eventuallyRun(30*time.Second, map[string]int{"job0-": 1, "job1-": 1, "job2-": 1})
	f.allRun(3)
	if n := least(); n != 2 {
		t.Errorf("at the worst %d of three jobs ran, want the two that did not move", n)
	}
	f.cycles(10)
	time.Sleep(3 * time.Second) // three more runs, which find nothing
	if n := f.movedToTarget(seen); n != 1 {
		t.Errorf("%d jobs were moved, want 1: %v", n, seen.all())
	}
	nodes := map[string]bool{}
	for _, p := range f.pods() {
		nodes[p.Spec.NodeName] = true
	}
	if len(nodes) != 2 {
		t.Errorf("the jobs are on nodes %v, want one node free", nodes)
	}
	f.consistent()
}
