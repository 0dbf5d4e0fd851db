// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// halfFull puts a job of two GPUs on each node of four: half of each is free, in
// pieces. start makes the job.
func (f fixture) halfFull(nodes int, start func(name string)) {
	f.t.Helper()
	pods := f.Client.CoreV1().Pods(metav1.NamespaceDefault)
	for i := range nodes {
		job := fmt.Sprintf("job%d", i)
		start(job)
		f.eventuallyRunning(20*time.Second, job, 1)
		if i < nodes-1 {
			f.create(stack.Pod("filler"+job, stack.Queue("team"), stack.Whole(2)))
			f.eventuallyRunning(20*time.Second, "filler"+job, 1)
		}
	}
	for i := range nodes - 1 {
		f.must(pods.Delete(f.ctx, fmt.Sprintf("fillerjob%d", i), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}
	f.eventually(10*time.Second, func() string {
		on := map[string]int{}
		for _, p := range f.pods() {
			on[p.Spec.NodeName]++
		}
		if len(on) != nodes || len(f.pods()) != nodes {
			return fmt.Sprintf("pods by node are %v, want one on each of %d", on, nodes)
		}
		return ""
	})
}

func (f fixture) recreatedJob(name string) {
	f.replicas(name, 1, stack.Queue("team"), stack.Whole(2))
}

// placeOf is the node of the only pod that runs with the prefix.
func (f fixture) placeOf(prefix string) string {
	for name, p := range f.pods() {
		if strings.HasPrefix(name, prefix) && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			return p.Spec.NodeName
		}
	}
	return ""
}

// movedToTarget checks that whatever was moved now runs on the node that its
// victim was told, and returns how many there were.
func (f fixture) movedToTarget(seen *observer) int {
	f.t.Helper()
	moved := seen.all()
	for _, e := range moved {
		target, told := strings.CutPrefix(e.message, "moved to node ")
		target, _, _ = strings.Cut(target, ",")
		if !told || !strings.HasPrefix(e.reason, "Moved") || target == e.node {
			f.t.Errorf("pod %s of node %s was evicted with %q, %q; want to be moved to another node", e.pod, e.node, e.reason, e.message)
		}
		if got := f.placeOf(e.set + "-"); got != target {
			f.t.Errorf("%s runs on node %q, its place was held on %q", e.set, got, target)
		}
	}
	return len(moved)
}

// TestFourGPUsInOnePiece is the example that Fairslice began with: four GPUs are
// free, on no node all of them; one job moves to a place that is held for it.
func TestFourGPUsInOnePiece(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.halfFull(2, f.recreatedJob)
	seen := f.evictions()
	before, least := f.leastRunning("job")
	f.create(stack.Pod("big", stack.Queue("team"), stack.Whole(4)))
	f.eventuallyRun(30*time.Second, map[string]int{"big": 1, "job0-": 1, "job1-": 1})
	f.cycles(10)
	if n := f.movedToTarget(seen); n != 1 {
		t.Errorf("%d jobs were moved, want 1: %v", n, seen.all())
	}
	f.neverDropped(before, least(), 1)
	if f.placeOf("job0-") != f.placeOf("job1-") || f.placeOf("big") == f.placeOf("job0-") {
		t.Errorf("job0 is on %s, job1 on %s and big on %s", f.placeOf("job0-"), f.placeOf("job1-"), f.placeOf("big"))
	}
	f.consistent()
}

// TestGangInTwoPieces: a gang needs two whole nodes of four that are half full.
func TestGangInTwoPieces(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4), stack.A100("n2", 4), stack.A100("n3", 4))
	f.halfFull(4, f.recreatedJob)
	seen, order := f.evictions(), f.record()
	before, least := f.leastRunning("job")
	f.gang("big", "team", 2)
	for i := range 2 {
		f.create(stack.Pod(fmt.Sprintf("big-%d", i), stack.Queue("team"), stack.Gang("big"), stack.Whole(4)))
	}
	f.eventuallyRun(30*time.Second, map[string]int{"big-": 2, "job0-": 1, "job1-": 1, "job2-": 1, "job3-": 1})
	f.cycles(10)
	if n := f.movedToTarget(seen); n != 2 {
		t.Errorf("%d jobs were moved, want 2: %v", n, seen.all())
	}
	f.neverDropped(before, least(), 2)
	if bound := order(); len(bound) != 8 {
		t.Errorf("pods were bound in the order %v, want four old ones, two moved and two members", bound)
	}
	f.consistent()
}

// TestSharedCardIsEmptied guards report R62: two halves on two cards become one
// full card, for a pod that asks for a whole one.
func TestSharedCardIsEmptied(t *testing.T) {
	f := use(t, stack.A100("n0", 2))
	spread := stack.Annotate(v1alpha1.AnnotationGPUPlacement, "spread")
	for _, name := range []string{"half0", "half1"} {
		f.replicas(name, 1, stack.Queue("team"), stack.Slice(50), spread)
		f.eventuallyRunning(20*time.Second, name+"-", 1)
	}
	if held := f.held(); len(held) != 2 {
		t.Fatalf("the halves should lie on two GPUs, they hold %v", held)
	}
	seen := f.evictions()
	before, least := f.leastRunning("half")
	f.create(stack.Pod("whole", stack.Queue("team"), stack.Whole(1)))
	f.eventuallyRun(30*time.Second, map[string]int{"whole": 1, "half0-": 1, "half1-": 1})
	f.cycles(10)
	if n := len(seen.all()); n != 1 {
		t.Errorf("%d pods were moved, want 1: %v", n, seen.all())
	}
	f.neverDropped(before, least(), 1)
	for uuid, milli := range f.held() {
		if milli != 1000 {
			t.Errorf("GPU %s carries %d/1000, want all", uuid, milli)
		}
	}
	f.consistent()
}

// TestNobodyIsMovedWhoWouldNotComeBack: bare pods stay where they are, and the
// claimant waits.
func TestNobodyIsMovedWhoWouldNotComeBack(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.halfFull(2, func(name string) { f.create(stack.Pod(name, stack.Queue("team"), stack.Whole(2))) })
	seen := f.evictions()
	f.create(stack.Pod("big", stack.Queue("team"), stack.Whole(4)))
	f.eventuallyWaits(15*time.Second, "big", "4 GPUs asked", "largest free block is 2")
	f.cycles(20)
	seen.want(map[string]int{})
	f.consistent()
}
