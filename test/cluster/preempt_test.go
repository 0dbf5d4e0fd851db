// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// gpuOf is the GPU that a pod has a part of.
func (f fixture) gpuOf(pod string) string {
	f.t.Helper()
	a, err := v1alpha1.DecodeAssignment(f.pods()[pod].Annotations[v1alpha1.AnnotationGPUAssignment])
	f.must(err)
	return a.Containers[0].GPUs[0].UUID
}

// TestPreemptionOnAFragmentedCard: enough is free in pieces, which kube-scheduler
// takes for enough; the pod of higher priority takes the least that makes room on
// one card, and nobody on the other card is touched.
func TestPreemptionOnAFragmentedCard(t *testing.T) {
	f := use(t, stack.A100("n0", 2))
	low, middle, high := f.priority(10), f.priority(50), f.priority(90)
	seen := f.evictions()
	for _, p := range []struct {
		name  string
		slice int
		class stack.PodOption
	}{
		{"low", 50, low}, {"low-small", 10, low}, {"middle", 60, middle},
	} {
		f.create(stack.Pod(p.name, stack.Queue("team"), stack.Slice(p.slice), p.class, goneAfter(time.Second)))
		f.eventuallyRun(20*time.Second, map[string]int{p.name: 1})
	}
	card := f.gpuOf("low")
	if f.gpuOf("low-small") != card || f.gpuOf("middle") == card {
		t.Fatal("the small pod should share the card of the first, and the middle one have the other")
	}
	f.create(stack.Pod("high", stack.Queue("team"), stack.Slice(75), high))
	f.eventuallyRun(30*time.Second, map[string]int{"high": 1, "low": 1, "middle": 1})
	seen.want(map[string]int{"low": 1})
	if got := f.gpuOf("high"); got != card {
		t.Errorf("the pod got GPU %s, its victim left %s", got, card)
	}
	f.held()
	f.consistent()
}

// TestPreemptionTakesTheLowest guards report R38: of two pods that would each
// make room, the one of lower priority goes, wherever it is.
func TestPreemptionTakesTheLowest(t *testing.T) {
	f := use(t, stack.A100("n0", 1), stack.A100("n1", 1))
	low, middle, high := f.priority(10), f.priority(50), f.priority(90)
	seen := f.evictions()
	f.replicas("middle", 1, stack.Queue("team"), stack.Whole(1), middle)
	f.eventuallyRun(20*time.Second, map[string]int{"middle-": 1})
	f.replicas("low", 1, stack.Queue("team"), stack.Whole(1), low)
	f.eventuallyRun(20*time.Second, map[string]int{"low-": 1})
	f.create(stack.Pod("high", stack.Queue("team"), stack.Whole(1), high))
	f.eventuallyRun(30*time.Second, map[string]int{"high": 1, "middle-": 1, "low-": 0})
	f.cycles(10)
	seen.want(map[string]int{"low": 1})
	f.consistent()
}

// TestPreemptionWithinALimit guards report R40: a queue at its limit makes room
// within itself although the cluster has room.
func TestPreemptionWithinALimit(t *testing.T) {
	f := use(t, stack.A100("n0", 8))
	low, high := f.priority(10), f.priority(90)
	f.queue("q", map[string]any{"limit": gpus(3)})
	seen := f.evictions()
	f.replicas("other", 2, stack.Queue("team"), stack.Whole(1), low)
	f.replicas("low", 1, stack.Queue("q"), stack.Whole(2), low)
	f.eventuallyRun(20*time.Second, map[string]int{"low-": 1, "other-": 2})
	f.create(stack.Pod("twin", stack.Queue("q"), stack.Whole(1), high))
	f.eventuallyRun(20*time.Second, map[string]int{"low-": 1, "twin": 1})
	seen.want(map[string]int{})
	f.create(stack.Pod("high", stack.Queue("q"), stack.Whole(2), high))
	f.eventuallyRun(30*time.Second, map[string]int{"low-": 0, "twin": 1, "high": 1, "other-": 2})
	seen.want(map[string]int{"low": 1})
	f.consistent()
}
