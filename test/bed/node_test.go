// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

//go:build kubelet

package bed_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/bed"
)

// realNode returns a cluster with the stock scheduler and one real node.
func realNode(t *testing.T) (*bed.Cluster, *bed.Node) {
	t.Helper()
	cluster := start(t, bed.Options{})
	if err := cluster.StartScheduler(t.Context(), bed.Scheduler{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	node, err := cluster.StartKubelet(t.Context(), bed.KubeletOptions{Labels: map[string]string{"example.com/real": "true"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("real node ready after %s", time.Since(began).Round(time.Millisecond))
	return cluster, node
}

// shellPod runs a shell command on a real node.
func shellPod(name, command string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64),
			NodeSelector:                  map[string]string{"example.com/real": "true"},
			Containers: []corev1.Container{{
				Name: "main", Image: bed.BusyboxImage, ImagePullPolicy: corev1.PullNever,
				Command: []string{"/bin/sh", "-c", command},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					corev1.ResourceMemory: resource.MustParse("64Mi"), corev1.ResourceCPU: resource.MustParse("500m"),
				}},
			}},
		},
	}
}

func TestContainerRunsToItsEnd(t *testing.T) {
	cluster, node := realNode(t)
	began := time.Now()
	create(t, cluster, shellPod("hello", "echo hello from $(cat /etc/hostname); cat /proc/self/cgroup"))
	eventually(t, 60*time.Second, hasPhase(cluster, "hello", corev1.PodSucceeded))
	t.Logf("container ran to its end after %s", time.Since(began).Round(time.Millisecond))
	out, err := cluster.Kubectl(t.Context(), "logs", "hello")
	if err != nil || !strings.Contains(out, "hello from") {
		t.Errorf("kubectl logs prints %q (error %v), want the container's words", out, err)
	}
	if !strings.Contains(out, node.CgroupRoot()) {
		t.Errorf("container's control groups are %q, want them below %s", out, node.CgroupRoot())
	}
	create(t, cluster, shellPod("stays", "sleep 1000"))
	eventually(t, 60*time.Second, hasPhase(cluster, "stays", corev1.PodRunning))
	out, err = cluster.Kubectl(t.Context(), "exec", "stays", "--", "echo", "inside")
	if err != nil || strings.TrimSpace(out) != "inside" {
		t.Errorf("kubectl exec prints %q (error %v), want inside", out, err)
	}
}

func TestNodeComponentsSurviveKills(t *testing.T) {
	cluster, node := realNode(t)
	ctx := t.Context()
	create(t, cluster, shellPod("stays", "sleep 1000"))
	eventually(t, 60*time.Second, hasPhase(cluster, "stays", corev1.PodRunning))
	before, err := cluster.Client().CoreV1().Pods("default").Get(ctx, "stays", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{node.Kubelet(), node.Containerd()} {
		if err := cluster.Kill(component); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := cluster.Restart(ctx, component); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s serves again after %s", component, time.Since(began).Round(time.Millisecond))
	}
	create(t, cluster, shellPod("next", "true"))
	eventually(t, 60*time.Second, hasPhase(cluster, "next", corev1.PodSucceeded))
	after, err := cluster.Client().CoreV1().Pods("default").Get(ctx, "stays", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Status.ContainerStatuses) != 1 || after.Status.ContainerStatuses[0].RestartCount != 0 ||
		after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("container of pod stays was %+v, is %+v, want the same one", before.Status.ContainerStatuses, after.Status.ContainerStatuses)
	}
	for _, path := range []string{node.DevicePluginDir() + "/kubelet.sock", node.PodResourcesSocket()} {
		if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
			t.Errorf("path %s (error %v) is no socket, want the kubelet's", path, err)
		}
	}
}

// A node leaves the machine as it found it: no process, mount or control group.
func TestNodeLeavesNothing(t *testing.T) {
	cluster, node := realNode(t)
	create(t, cluster, shellPod("stays", "sleep 1000"))
	eventually(t, 60*time.Second, hasPhase(cluster, "stays", corev1.PodRunning))
	if err := cluster.Client().CoreV1().Pods("default").Delete(t.Context(), "stays", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, func(ctx context.Context) error {
		_, err := cluster.Client().CoreV1().Pods("default").Get(ctx, "stays", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("pod stays is still there")
		}
		return err
	})
	create(t, cluster, shellPod("abandoned", "sleep 1000"))
	eventually(t, 60*time.Second, hasPhase(cluster, "abandoned", corev1.PodRunning))
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, cluster.Folder(), node.CgroupRoot())
}

func TestNodeDoesNotOutliveAKilledProgram(t *testing.T) {
	folder, processes := killVictim(t, "node", syscall.SIGKILL)
	for _, want := range []string{"kubelet", "containerd"} {
		if !strings.Contains(strings.Join(processes, "\n"), "/"+want+" ") {
			t.Errorf("cluster in %s had processes %v, want %s among them", folder, processes, want)
		}
	}
}

// Two nodes of one machine do not see each other's pods and folders.
func TestTwoNodes(t *testing.T) {
	cluster, first := realNode(t)
	second, err := cluster.StartKubelet(t.Context(), bed.KubeletOptions{Name: "node-2", Config: "maxPods: 5"})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []*bed.Node{first, second} {
		pod := shellPod("on-"+node.Name, "sleep 1000")
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
		create(t, cluster, pod)
		eventually(t, 60*time.Second, hasPhase(cluster, pod.Name, corev1.PodRunning))
		list, err := filepath.Glob(filepath.Join(node.Folder(), "pods", "*"))
		if err != nil || len(list) != 1 || !strings.Contains(list[0], pod.Name) {
			t.Errorf("node %s keeps logs of pods %v (error %v), want those of %s alone", node.Name, list, err, pod.Name)
		}
	}
	object, err := cluster.Client().CoreV1().Nodes().Get(t.Context(), "node-2", metav1.GetOptions{})
	if err != nil || object.Status.Allocatable.Pods().Value() != 5 {
		t.Errorf("node-2 takes %v pods (error %v), want the 5 of its configuration", object.Status.Allocatable.Pods(), err)
	}
}
