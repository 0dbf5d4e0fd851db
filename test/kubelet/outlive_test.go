// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/test/stack"
)

// keeper holds 6 of its 10 GiB by one process, each time that it starts, and ends when
// it is told to.
const keeper = `mkfifo /tmp/in
	exec 3<>/tmp/in
	probe link <&3 >/tmp/held 2>&1 &
	echo 'a = alloc 6GiB' >&3
	env
	until [ -e /tmp/stop ]; do sleep 0.2; done
	exit 1`

// TestLimitsOutlive: whatever ends on the node, a container keeps its GPU and its
// limit. What it held before and holds still is counted; what its processes held that
// are gone is not; and so it stays when the container starts again afterwards.
func TestLimitsOutlive(t *testing.T) {
	for _, what := range []struct {
		name   string
		happen func(fixture)
	}{
		{"the plugin", func(f fixture) {
			f.must(f.Kill(node.Plugin()))
			f.must(f.Restart(f.ctx, node.Plugin()))
		}},
		{"the plugin, whose next version has another library", fixture.upgrade},
		{"the kubelet", func(f fixture) {
			f.must(f.Kill(node.Kubelet()))
			f.must(f.Restart(f.ctx, node.Kubelet()))
		}},
		{"containerd", func(f fixture) {
			f.must(f.Kill(node.Containerd()))
			f.must(f.Restart(f.ctx, node.Containerd()))
		}},
		{"all of it, when the node boots", fixture.reboot},
	} {
		t.Run(what.name, func(t *testing.T) {
			f := use(t)
			p := cuda("keeper", keeper)
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
			f.create(p)
			f.eventuallyIs(60*time.Second, corev1.PodRunning, "keeper")
			f.keeps("keeper")
			before := f.assignment("keeper", "main").GPUs[0]
			what.happen(f)
			f.registeredAgain()
			f.keeps("keeper")
			if after := f.assignment("keeper", "main").GPUs[0]; after != before {
				t.Errorf("the annotation said %+v, and says %+v", before, after)
			}
			f.create(cuda("next", "echo 'alloc 10GiB+1\na = alloc 10GiB\ninfo' | probe link 2>/dev/null"))
			f.eventuallyIs(90*time.Second, corev1.PodSucceeded, "next")
			if got, want := f.log("next"), "alloc 10GiB+1: OUT_OF_MEMORY\na = alloc 10GiB: ok\ninfo: ok free 0MiB total 10240MiB\n"; got != want {
				t.Errorf("the next pod printed %q, want %q", got, want)
			}
			starts := f.get("keeper").Status.ContainerStatuses[0].RestartCount
			f.inside("keeper", "touch /tmp/stop")
			f.eventually(60*time.Second, func() string {
				if s := f.get("keeper").Status.ContainerStatuses[0]; s.RestartCount == starts || s.State.Running == nil {
					return "keeper has not started again"
				}
				return ""
			})
			f.keeps("keeper")
			f.consistent()
		})
	}
}

// keeps checks that the pod sees the GPU that was planned, holds 6 GiB of it and is
// given 4 more to the byte.
func (f fixture) keeps(name string) {
	f.t.Helper()
	const want = "info: ok free 4096MiB total 10240MiB\nalloc 4GiB+1: OUT_OF_MEMORY\na = alloc 4GiB: ok\nnvml 0: ok free 0MiB total 10240MiB used 10240MiB\n"
	f.eventually(60*time.Second, func() string {
		got, err := f.tryInside(name, "[ -s /tmp/held ] && printf 'info\nalloc 4GiB+1\na = alloc 4GiB\nnvml 0\n' | STANDIN_UUIDS=$NVIDIA_VISIBLE_DEVICES probe link 2>/dev/null")
		if err != nil || got != want {
			return fmt.Sprintf("a program in %s printed %q (%v), want %q", name, got, err, want)
		}
		return ""
	})
	f.told(name, "main")
}

func (f fixture) tryInside(name, script string) (string, error) {
	return f.Kubectl(f.ctx, "exec", name, "--", "sh", "-c", script)
}

// inside runs a shell script in a pod's container.
func (f fixture) inside(name, script string) string {
	f.t.Helper()
	out, err := f.tryInside(name, script)
	f.must(err)
	return out
}

// upgrade starts a plugin that brings another library. What runs keeps the file that
// it has mapped, new containers get the new one.
func (f fixture) upgrade() {
	f.t.Helper()
	const sum = "md5sum </run/fairslice/libfairslice.so"
	old := f.inside("keeper", sum)
	f.must(f.Kill(node.Plugin()))
	library := filepath.Join(cudaFolder(), "libfairslice.so")
	content, err := os.ReadFile(library)
	f.must(err)
	// Behind the end of an ELF file anything may follow.
	f.must(os.WriteFile(library+".next", append(content, []byte("version 2")...), 0o755))
	f.must(os.Rename(library+".next", library))
	f.must(f.Restart(f.ctx, node.Plugin()))
	f.registeredAgain()
	f.create(cuda("young", sum))
	f.eventuallyIs(60*time.Second, corev1.PodSucceeded, "young")
	if now := f.inside("keeper", sum); now != old {
		f.t.Errorf("the library of a running container was %s and is %s", old, now)
	}
	if young := f.log("young"); young == old {
		f.t.Errorf("a new container has the old library, %s", young)
	}
}

// reboot ends and starts the node. The plugin comes before the kubelet, as one that no
// kubelet starts.
func (f fixture) reboot() {
	f.t.Helper()
	f.powerOff("keeper")
	f.must(f.Restart(f.ctx, node.Plugin()))
	f.must(f.Restart(f.ctx, node.Kubelet()))
	f.eventually(60*time.Second, func() string {
		p := f.get("keeper")
		if s := p.Status.ContainerStatuses; len(s) == 0 || s[0].RestartCount == 0 || s[0].State.Running == nil {
			return fmt.Sprintf("keeper does not run again: %s %s %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return ""
	})
}

// powerOff ends every process of the node at once, and waits until those of the pod
// are gone. Sockets and what lies in /run are gone too; the kubelet's checkpoint and
// the plugin's state are kept. Then containerd runs, but neither kubelet nor plugin.
func (f fixture) powerOff(pod string) {
	f.t.Helper()
	for _, component := range []string{node.Kubelet(), node.Plugin(), node.Containerd()} {
		f.must(f.Kill(component))
	}
	// In the node's own PID namespace -1 is all of its processes but the first and the
	// caller's.
	if out, err := node.Command(f.ctx, "sh", "-c", "kill -9 -1; exit 0").CombinedOutput(); err != nil {
		f.t.Fatalf("ending the node's processes: %v: %s", err, out)
	}
	f.eventually(20*time.Second, func() string {
		if left := onNode(node.CgroupRoot(), uuidsOf(f.assignment(pod, "main").GPUs)); len(left) > 0 {
			return fmt.Sprintf("processes are left: %v", left)
		}
		return ""
	})
	for _, pattern := range []string{node.DevicePluginDir() + "/*.sock", node.CDIDir() + "/*", filepath.Dir(node.PodResourcesSocket()) + "/*"} {
		files, err := filepath.Glob(pattern)
		f.must(err)
		for _, file := range files {
			f.must(os.Remove(file))
		}
	}
	f.must(f.Restart(f.ctx, node.Containerd()))
}

// TestPluginComesLateAfterABoot is report R77 (kubernetes #109595, #125579): a kubelet
// that starts before the plugin fails the pods of a resource that it does not know
// yet. They hold nothing from then on, what had ended before stays as it was, and the
// GPUs are there for others as soon as the plugin is.
func TestPluginComesLateAfterABoot(t *testing.T) {
	f := use(t)
	f.create(pod("done", "env", stack.Whole(1)))
	f.eventuallyIs(60*time.Second, corev1.PodSucceeded, "done")
	p := cuda("keeper", keeper)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	f.create(p, pod("waits", sleeper, stack.Whole(node.GPUs)))
	f.eventuallyIs(60*time.Second, corev1.PodRunning, "keeper")
	f.keeps("keeper")
	f.powerOff("keeper")
	f.must(f.Restart(f.ctx, node.Kubelet()))
	f.eventuallyIs(90*time.Second, corev1.PodFailed, "keeper")
	if p := f.get("keeper"); p.Status.Reason != "UnexpectedAdmissionError" {
		t.Errorf("the reason is %s, the message %s", p.Status.Reason, p.Status.Message)
	}
	if p := f.get("waits"); p.Spec.NodeName != "" {
		t.Errorf("a pod was bound to %s while no GPU was served", p.Spec.NodeName)
	}
	f.must(f.Restart(f.ctx, node.Plugin()))
	f.eventuallyIs(90*time.Second, corev1.PodRunning, "waits")
	f.told("waits", "main")
	if p := f.get("done"); p.Status.Phase != corev1.PodSucceeded {
		t.Errorf("a pod that had succeeded is %s: %s %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	}
	f.consistent()
}
