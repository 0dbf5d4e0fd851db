// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/check"
	"github.com/fairslice/fairslice/test/stack"
)

// TestKilledInAWave kills one part, with -9, in the middle of a wave of pods:
// nothing is lost and nothing is booked twice. The kubelet refuses for good a pod that
// comes while no plugin serves; it is made again, as its controller would.
func TestKilledInAWave(t *testing.T) {
	for _, part := range []struct{ name, component string }{
		{"device-plugin", node.Plugin()},
		{"kubelet", node.Kubelet()},
		{"control-plane", stack.ControlPlane},
	} {
		t.Run(part.name, func(t *testing.T) {
			f := use(t)
			var names []string
			wave := func(i int) *corev1.Pod { return pod(fmt.Sprintf("w-%d", i), sleeper, stack.Slice(25+5*(i%2))) }
			for i := range 10 {
				names = append(names, wave(i).Name)
				f.create(wave(i))
				if i == 4 {
					f.must(f.Kill(part.component))
				}
			}
			time.Sleep(time.Second)
			f.must(f.Restart(f.ctx, part.component))
			if part.component == node.Plugin() {
				f.registeredAgain()
				f.replaceRefused(names, wave)
			}
			f.eventuallyIs(150*time.Second, corev1.PodRunning, names...)
			f.consistent()
			for _, name := range names {
				f.told(name, "main")
			}
		})
	}
}

// TestPluginRestartedUnderRunningPods: what runs keeps its GPUs, what comes
// next gets the others.
func TestPluginRestartedUnderRunningPods(t *testing.T) {
	f := use(t)
	f.create(pod("old", sleeper, stack.Whole(node.GPUs-1)))
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "old")
	f.must(f.Kill(node.Plugin()))
	f.must(f.Restart(f.ctx, node.Plugin()))
	f.registeredAgain()
	f.create(pod("new", sleeper, stack.Slice(50)))
	f.eventuallyIs(90*time.Second, corev1.PodRunning, "new")
	f.told("old", "main")
	f.told("new", "main")
	f.consistent()
}

// replaceRefused waits until the kubelet has decided about every pod, and makes those
// again that it refused.
func (f fixture) replaceRefused(names []string, again func(int) *corev1.Pod) {
	f.t.Helper()
	pods := f.Client.CoreV1().Pods(metav1.NamespaceDefault)
	for i, name := range names {
		f.eventually(90*time.Second, func() string {
			p := f.get(name)
			if p.Status.Phase == corev1.PodRunning || p.Status.Reason == "UnexpectedAdmissionError" {
				return ""
			}
			return fmt.Sprintf("pod %s is %s: %s", name, p.Status.Phase, waiting(p))
		})
		if f.get(name).Status.Phase != corev1.PodFailed {
			continue
		}
		f.must(pods.Delete(f.ctx, name, metav1.DeleteOptions{}))
		f.eventually(30*time.Second, func() string {
			if _, err := pods.Get(f.ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return "pod " + name + " is still there"
			}
			return ""
		})
		f.create(again(i))
	}
}

// registeredAgain waits until the kubelet has the device plugin's devices back.
// A pod that is bound while they are away is refused by the kubelet, which is for
// its controller to mend.
func (f fixture) registeredAgain() {
	f.t.Helper()
	f.eventually(30*time.Second, func() string {
		healthy, err := check.Allocatable(f.ctx, node.PodResourcesSocket(), v1alpha1.ResourceGPUSlice)
		f.must(err)
		if healthy == 0 {
			return "the kubelet has no healthy slices"
		}
		return ""
	})
}
