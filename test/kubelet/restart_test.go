// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/check"
	"github.com/fairslice/fairslice/test/stack"
)

// TestKilledInAWave kills one part, with -9, in the middle of a wave of pods:
// nothing is lost and nothing is booked twice.
func TestKilledInAWave(t *testing.T) {
	for _, part := range []struct{ name, component string }{
		{"device-plugin", node.Plugin()},
		{"kubelet", node.Kubelet()},
		{"control-plane", stack.ControlPlane},
	} {
		t.Run(part.name, func(t *testing.T) {
			f := use(t)
			var names []string
			for i := range 10 {
				p := pod(fmt.Sprintf("w-%d", i), sleeper, stack.Slice(25+5*(i%2)))
				names = append(names, p.Name)
				f.create(p)
				if i == 4 {
					f.must(f.Kill(part.component))
				}
			}
			time.Sleep(time.Second)
			f.must(f.Restart(f.ctx, part.component))
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
