// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/stack"
)

func TestContainerSeesTheGPUThatWasPlanned(t *testing.T) {
	f := use(t)
	f.create(
		pod("whole", sleeper, stack.Whole(2)),
		pod("slice", sleeper, stack.Slice(25)),
		pod("memory", sleeper, stack.MemoryGiB(10)),
		pod("pair", sleeper, stack.Slice(100), stack.OverGPUs(2)),
	)
	names := []string{"whole", "slice", "memory", "pair"}
	f.eventuallyIs(90*time.Second, corev1.PodRunning, names...)
	f.consistent()
	for _, name := range names {
		f.told(name, "main")
	}
	if got := len(f.assignment("pair", "main").GPUs); got != 2 {
		t.Errorf("pair holds %d GPUs, want 2", got)
	}
}

func TestEachContainerOfAPodGetsItsOwnSlice(t *testing.T) {
	f := use(t)
	p := pod("two", sleeper, stack.Slice(75))
	side := pod("x", sleeper, stack.Slice(50)).Spec.Containers[0]
	side.Name = "side"
	p.Spec.Containers = append(p.Spec.Containers, side)
	f.create(p)
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "two")
	f.consistent()
	f.told("two", "main")
	f.told("two", "side")
	if a, b := f.assignment("two", "main").GPUs[0], f.assignment("two", "side").GPUs[0]; a.Units != 75 || b.Units != 50 || a.UUID == b.UUID {
		t.Errorf("main holds %v and side %v, want 75 and 50 of different GPUs", a, b)
	}
}

func TestInitContainerAndMainContainer(t *testing.T) {
	f := use(t)
	p := pod("init", sleeper, stack.Slice(25))
	first := pod("x", "env; sleep 1", stack.Slice(50)).Spec.Containers[0]
	first.Name = "prepare"
	p.Spec.InitContainers = []corev1.Container{first}
	f.create(p)
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "init")
	f.told("init", "prepare")
	f.told("init", "main")
	if a, b := f.assignment("init", "prepare").GPUs[0], f.assignment("init", "main").GPUs[0]; a.UUID != b.UUID {
		t.Errorf("the kubelet reuses the init container's devices, so both must be on one GPU: %v and %v", a, b)
	}
}

// TestSharersFillTheNode: slices and memory of many pods created together each
// land where they were planned.
func TestSharersFillTheNode(t *testing.T) {
	f := use(t)
	var names []string
	for i := range 12 {
		p := pod(fmt.Sprintf("s-%d", i), sleeper, stack.Slice(25))
		names = append(names, p.Name)
		f.create(p)
	}
	f.eventuallyIs(120*time.Second, corev1.PodRunning, names...)
	f.consistent()
	for _, name := range names {
		f.told(name, "main")
	}
}

func TestRestartedContainerKeepsItsGPU(t *testing.T) {
	f := use(t)
	p := pod("again", "env; sleep 2; exit 1", stack.Slice(50))
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	f.create(p)
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "again")
	before := f.assignment("again", "main").GPUs[0].UUID
	f.eventually(60*time.Second, func() string {
		if s := f.get("again").Status.ContainerStatuses; len(s) == 0 || s[0].RestartCount < 2 {
			return "the container has not restarted twice"
		}
		return ""
	})
	f.told("again", "main")
	if after := f.assignment("again", "main").GPUs[0].UUID; after != before {
		t.Errorf("GPU %s became %s", before, after)
	}
	f.consistent()
}

// TestEndedPodFreesItsGPU: the room of a pod that ended is used again.
func TestEndedPodFreesItsGPU(t *testing.T) {
	f := use(t)
	for round := range 3 {
		name := fmt.Sprintf("turn-%d", round)
		f.create(pod(name, "env", stack.Whole(node.GPUs)))
		f.eventuallyIs(60*time.Second, corev1.PodSucceeded, name)
	}
	f.create(pod("last", sleeper, stack.Slice(100)))
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "last")
	f.consistent()
}

// TestDeletedPodHoldsItsGPUUntilItIsGone: a deletion timestamp frees nothing.
func TestDeletedPodHoldsItsGPUUntilItIsGone(t *testing.T) {
	f := use(t)
	slow := pod("slow", "trap 'sleep 5; exit 0' TERM; env; while :; do sleep 0.1; done", stack.Whole(node.GPUs))
	slow.Spec.TerminationGracePeriodSeconds = new(int64(20))
	f.create(slow)
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "slow")
	f.create(pod("next", sleeper, stack.Whole(node.GPUs)))
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "slow", metav1.DeleteOptions{}))
	f.eventually(60*time.Second, func() string {
		p, next := f.get("next"), ""
		old, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(f.ctx, "slow", metav1.GetOptions{})
		if err == nil && old.Status.Phase == corev1.PodRunning {
			next = "slow is still ending"
			if p.Spec.NodeName != "" {
				t.Fatal("next was bound while slow still held the GPUs")
			}
		} else if p.Status.Phase != corev1.PodRunning {
			next = "next is " + string(p.Status.Phase) + ": " + waiting(p)
		}
		return next
	})
	f.consistent()
}
