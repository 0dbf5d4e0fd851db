// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

func slices(prefix string, n, percent int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, stack.Pod(fmt.Sprintf("%s-%d", prefix, i), stack.Queue("team"), stack.Slice(percent)))
	}
	return pods
}

func TestFourHundredQuartersFillAHundredGPUs(t *testing.T) {
	var nodes []stack.GPUNode
	for i := range 13 {
		nodes = append(nodes, stack.A100(fmt.Sprintf("n%02d", i), min(8, 100-8*i)))
	}
	f := use(t, nodes...)
	f.create(slices("q", 400, 25)...)
	f.eventuallyBound(90*time.Second, "q-", 400)
	held := f.held()
	if len(held) != 100 {
		t.Errorf("%d GPUs are in use, want 100", len(held))
	}
	for uuid, milli := range held {
		if milli != 1000 {
			t.Errorf("GPU %s carries %d/1000, want exactly four quarters", uuid, milli)
		}
	}
	f.create(stack.Pod("one-more", stack.Queue("team"), stack.Slice(25)))
	f.eventuallyWaits(15*time.Second, "one-more", "0.25 GPUs asked", "largest free block is 0")
}

func TestThirtyTwoHalvesOfOneSecondAllRun(t *testing.T) {
	f := use(t, stack.A100("n0", 8), stack.A100("n1", 8))
	f.create(slices("h", 32, 50)...)
	f.eventuallyBound(30*time.Second, "h-", 32)
	for uuid, milli := range f.held() {
		if milli != 1000 {
			t.Errorf("GPU %s carries %d/1000", uuid, milli)
		}
	}
}

func TestThreeQuartersDoNotFitOnTwoHalves(t *testing.T) {
	f := use(t, stack.A100("n0", 2))
	pods := slices("h", 2, 50)
	for _, p := range pods {
		p.Annotations[v1alpha1.AnnotationGPUPlacement] = "spread"
	}
	f.create(pods...)
	f.eventuallyBound(20*time.Second, "h-", 2)
	if held := f.held(); len(held) != 2 {
		t.Fatalf("the halves should lie on two GPUs, they hold %v", held)
	}
	f.create(stack.Pod("big", stack.Queue("team"), stack.Slice(75)))
	f.eventuallyWaits(10*time.Second, "big", "0.75 GPUs asked", "largest free block is 0.5")
	f.must(f.AddGPUNodes(f.ctx, stack.A100("n1", 1)))
	f.eventuallyBound(20*time.Second, "big", 1)
}

func TestMemoryIsCountedByEachCardsOwnSize(t *testing.T) {
	f := use(t, stack.A100("a100", 1), stack.H100("h100", 1))
	ask := func(name, node string) *corev1.Pod {
		return stack.Pod(name, stack.Queue("team"), stack.MemoryGiB(20), stack.OnNode(corev1.LabelHostname, node))
	}
	f.create(ask("a-0", "a100"), ask("a-1", "a100"), ask("h-0", "h100"), ask("h-1", "h100"), ask("h-2", "h100"))
	f.eventuallyBound(20*time.Second, "a-", 2)
	f.eventuallyBound(20*time.Second, "h-", 3)
	f.create(ask("a-2", "a100"), ask("h-3", "h100"))
	f.eventuallyWaits(10*time.Second, "a-2", "20 GiB of GPU memory asked", "largest free block is 0")
	f.eventuallyWaits(10*time.Second, "h-3", "20 GiB of GPU memory asked", "largest free block is 19.647 GiB")
	for name, want := range map[string]int64{"a-0": 500, "h-0": 20 * 1024 * 1000 / 81559} {
		a, err := v1alpha1.DecodeAssignment(f.pods()[name].Annotations[v1alpha1.AnnotationGPUAssignment])
		f.must(err)
		got := a.Containers[0].GPUs[0]
		if got.MemoryMiB != 20*1024 || got.MilliGPU < want || got.MilliGPU > want+1 {
			t.Errorf("%s holds %d MiB and %d/1000, want 20480 MiB and about %d/1000", name, got.MemoryMiB, got.MilliGPU, want)
		}
	}
}
