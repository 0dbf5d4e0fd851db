// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

// watching are the flags of a device plugin that looks often and waits for little.
func watching(action, metrics string) []string {
	return []string{
		"--watch=" + action, "--watch-every=200ms", "--watch-polls=3", "--watch-grace=0s", "--watch-context-mib=0", "--metrics-addr=" + metrics,
	}
}

// TestStaticProgramIsKilled: nothing can be preloaded into a static program, so it
// takes more than its slice. The watchdog finds it by what the driver lists, tells
// the pod's owner, counts, and kills the largest process of the container; a smaller
// one of the same container and the neighbour on the same GPU go on.
func TestStaticProgramIsKilled(t *testing.T) {
	f := use(t)
	f.drive(node, cudaFolder())
	killed := f.metric(metricsOfNode, `fairslice_watchdog_actions_total{outcome="killed"}`)
	f.create(
		cuda("greedy", "exec 2>/dev/null; static 4096 >/tmp/small & static 16384; echo \"the largest ended with $?\"; cat /tmp/small; kill -0 $! && echo 'the small one runs'; wait"),
		cuda("fair", "(echo 'a = alloc 10GiB'; sleep 600) | probe link"))
	f.eventuallyIs(90*time.Second, corev1.PodRunning, "greedy", "fair")
	const want = "16384 MiB: taken\nthe largest ended with 137\n4096 MiB: taken\nthe small one runs\n"
	f.eventually(30*time.Second, func() string {
		if got := f.log("greedy"); got != want {
			return fmt.Sprintf("greedy has printed %q, want %q", got, want)
		}
		return ""
	})
	uuid := f.assignment("greedy", "main").GPUs[0].UUID
	if fair := f.assignment("fair", "main").GPUs[0].UUID; fair != uuid {
		t.Errorf("greedy is on GPU %s and fair on %s: they are no neighbours", uuid, fair)
	}
	f.event("greedy", "GPUMemoryExceeded", fmt.Sprintf("container main uses 20480 MiB of GPU %s and may use 10240 MiB, for 3 looks in a row: its largest process (PID ", uuid), ", 16384 MiB) is killed")
	f.eventually(20*time.Second, func() string {
		over := f.metric(metricsOfNode, labelled("over_limit_total", "greedy", uuid))
		none := f.metric(metricsOfNode, labelled("over_limit_total", "fair", uuid))
		greedy, fair := f.metric(metricsOfNode, labelled("memory_used_mib", "greedy", uuid)), f.metric(metricsOfNode, labelled("memory_used_mib", "fair", uuid))
		now := f.metric(metricsOfNode, `fairslice_watchdog_actions_total{outcome="killed"}`)
		if over != "1" || none != "0" || greedy != "4096" || fair != "10240" || now == killed {
			return fmt.Sprintf("over the limit: greedy %s, fair %s times, want 1 and 0; used: %s and %s MiB, want 4096 and 10240; killed were %s and are %s", over, none, greedy, fair, killed, now)
		}
		return ""
	})
	if p := f.get("fair"); p.Status.Phase != corev1.PodRunning {
		t.Errorf("the neighbour is %s", p.Status.Phase)
	}
}

// TestStaticProgramIsEvicted: the same by the other policy, on a node of its own. The
// whole pod goes, by the Eviction API, for which the plugin needs one more right.
func TestStaticProgramIsEvicted(t *testing.T) {
	f := use(t)
	f.allowEvictions()
	dir := filepath.Join(cudaFolder(), "evicting")
	metrics, err := freeAddress()
	f.must(err)
	n := f.startNode("evicting", dir, watching("evict", metrics)...)
	f.drive(n, dir)
	p := cuda("greedy", "static 16384", stack.OnNode(corev1.LabelHostname, n.Name))
	f.create(p)
	f.event("greedy", "GPUMemoryExceeded", "container main uses 16384 MiB of GPU ", " and may use 10240 MiB, for 3 looks in a row: the pod is evicted")
	f.eventually(60*time.Second, func() string {
		_, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(f.ctx, "greedy", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return "greedy is still there"
		}
		return ""
	})
	if got := f.metric(metrics, `fairslice_watchdog_actions_total{outcome="evicted"}`); got == "0" || got == "" {
		t.Errorf("%q evictions are counted", got)
	}
}

// allowEvictions gives the device plugin the right that --watch=evict needs.
func (f fixture) allowEvictions() {
	f.t.Helper()
	const name = "fairslice-device-plugin-evictions"
	_, err := f.Client.RbacV1().ClusterRoles().Create(f.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.Client.RbacV1().ClusterRoleBindings().Create(f.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: stack.Namespace, Name: "fairslice-device-plugin"}},
	}, metav1.CreateOptions{})
	f.must(err)
}

// startNode adds a real node for the time of the test, with the interceptor and the
// CUDA image. Pods get there by naming it.
func (f fixture) startNode(name, dir string, flags ...string) *stack.RealNode {
	f.t.Helper()
	built, err := held(f.ctx, dir)
	f.must(err)
	profile, err := writeMachine(dir)
	f.must(err)
	f.t.Cleanup(func() { f.removeNode(name) })
	n, err := f.StartRealNode(f.ctx, stack.RealNodeOptions{
		Kubelet: bed.KubeletOptions{Name: name}, Profile: profile, PluginFlags: append(built, flags...),
	})
	f.must(err)
	f.must(importCUDA(f.ctx, n, dir))
	return n
}

// removeNode ends the node and what is left of its pods.
func (f fixture) removeNode(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, component := range []string{"device-plugin", "kubelet", "containerd", "holder"} {
		_ = f.Kill(name + "-" + component) // it may not have come so far
	}
	err := f.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil {
		err = f.Client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))},
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Error("cleaning up:", err)
	}
}

// event waits for an event about the pod whose message holds the texts.
func (f fixture) event(pod, reason string, texts ...string) {
	f.t.Helper()
	f.eventually(30*time.Second, func() string {
		list, err := f.Client.CoreV1().Events(metav1.NamespaceDefault).List(f.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
		f.must(err)
		var seen []string
		for _, e := range list.Items {
			rest, all := e.Message, true
			for _, text := range texts {
				var found bool
				if _, rest, found = strings.Cut(rest, text); !found {
					all = false
				}
			}
			if all {
				return ""
			}
			seen = append(seen, e.Message)
		}
		return fmt.Sprintf("no event %s with %q about pod %s, but %q", reason, texts, pod, seen)
	})
}

// labelled is a sample's name with the labels of a container of the suite's GPUs.
func labelled(metric, pod, uuid string) string {
	return fmt.Sprintf(`fairslice_container_gpu_%s{UUID=%q,container="main",gpu=`, metric, uuid) + "|" + fmt.Sprintf(`namespace="default",pod=%q}`, pod)
}

// metric is the value of the sample whose name holds the parts, between bars; empty
// where there is none.
func (f fixture) metric(address, name string) string {
	f.t.Helper()
	answer, err := http.Get("http://" + address + "/metrics")
	f.must(err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	f.must(err)
	begin, end, _ := strings.Cut(name, "|")
	for line := range strings.Lines(string(raw)) {
		sample, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if sample += "}"; strings.HasPrefix(sample, begin) && strings.HasSuffix(sample, end) {
			return value
		}
	}
	return ""
}
