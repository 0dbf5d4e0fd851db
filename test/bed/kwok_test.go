// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/bed"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

// simulated returns a cluster with two nodes of four GPUs each, kwok and the
// stock scheduler.
func simulated(t *testing.T) *bed.Cluster {
	t.Helper()
	cluster := start(t, bed.Options{})
	ctx := t.Context()
	began := time.Now()
	if err := cluster.StartKwok(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StartScheduler(ctx, bed.Scheduler{}); err != nil {
		t.Fatal(err)
	}
	four := corev1.ResourceList{gpu: resource.MustParse("4")}
	err := cluster.AddSimulatedNodes(ctx,
		bed.SimulatedNode{Name: "gpu-0", Allocatable: four, Labels: map[string]string{"model": "a100"}},
		bed.SimulatedNode{Name: "gpu-1", Allocatable: four, Labels: map[string]string{"model": "h100"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kwok, scheduler and nodes ready after %s", time.Since(began).Round(time.Millisecond))
	return cluster
}

// gpuPod asks for whole GPUs.
func gpuPod(name string, gpus int64, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu: *resource.NewQuantity(gpus, resource.DecimalSI)}},
			}},
		},
	}
}

func create(t *testing.T, cluster *bed.Cluster, pod *corev1.Pod) {
	t.Helper()
	if _, err := cluster.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// hasPhase is for eventually.
func hasPhase(cluster *bed.Cluster, name string, want corev1.PodPhase) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := cluster.Client().CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != want {
			return fmt.Errorf("pod %s is %s on node %q, want %s", name, pod.Status.Phase, pod.Spec.NodeName, want)
		}
		return nil
	}
}

func TestPodsLiveAsTheirAnnotationsSay(t *testing.T) {
	cluster := simulated(t)
	pods := cluster.Client().CoreV1().Pods("default")
	create(t, cluster, gpuPod("runs", 1, nil))
	create(t, cluster, gpuPod("succeeds", 1, map[string]string{bed.SucceedAfter: "300ms"}))
	create(t, cluster, gpuPod("fails", 1, map[string]string{bed.FailAfter: "300ms"}))
	create(t, cluster, gpuPod("starts-late", 1, map[string]string{bed.StartAfter: "1h"}))
	create(t, cluster, gpuPod("ends-late", 1, map[string]string{bed.GoneAfter: "1h"}))
	create(t, cluster, gpuPod("too-big", 5, nil))
	gated := gpuPod("gated", 1, nil)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/hold"}}
	create(t, cluster, gated)

	eventually(t, 20*time.Second, hasPhase(cluster, "runs", corev1.PodRunning))
	eventually(t, 20*time.Second, hasPhase(cluster, "succeeds", corev1.PodSucceeded))
	eventually(t, 20*time.Second, hasPhase(cluster, "fails", corev1.PodFailed))
	eventually(t, 20*time.Second, hasPhase(cluster, "ends-late", corev1.PodRunning))
	eventually(t, 20*time.Second, func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "starts-late", metav1.GetOptions{})
		if err == nil && (pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending) {
			err = fmt.Errorf("pod starts-late is %s on node %q, want it Pending on a node", pod.Status.Phase, pod.Spec.NodeName)
		}
		return err
	})
	for _, name := range []string{"gated", "too-big"} {
		pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending {
			t.Errorf("pod %s is %s on node %q (error %v), want Pending on none", name, pod.Status.Phase, pod.Spec.NodeName, err)
		}
	}
	for _, name := range []string{"runs", "ends-late"} {
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 20*time.Second, func(ctx context.Context) error {
		_, err := pods.Get(ctx, "runs", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("pod runs was deleted and is still there")
		}
		return err
	})
	pod, err := pods.Get(t.Context(), "ends-late", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil {
		t.Errorf("pod ends-late: error %v, want it there with a deletion time", err)
	}
}

func TestSchedulerKilledAndConfigured(t *testing.T) {
	cluster := simulated(t)
	if err := cluster.Kill(bed.KubeScheduler); err != nil {
		t.Fatal(err)
	}
	create(t, cluster, gpuPod("patient", 1, nil))
	if err := cluster.Restart(t.Context(), bed.KubeScheduler); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, hasPhase(cluster, "patient", corev1.PodRunning))

	second := bed.Scheduler{Name: "second-scheduler", Config: "profiles:\n- schedulerName: second-scheduler\n"}
	if err := cluster.StartScheduler(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	pod := gpuPod("seconds", 1, nil)
	pod.Spec.SchedulerName = "second-scheduler"
	create(t, cluster, pod)
	eventually(t, 20*time.Second, hasPhase(cluster, "seconds", corev1.PodRunning))

	broken := bed.Scheduler{Name: "broken", Config: "profiles: none\n"}
	if err := cluster.StartScheduler(t.Context(), broken); err == nil {
		t.Error("a scheduler with a broken configuration started")
	}
}

func TestNodeGoesDownAndComesBack(t *testing.T) {
	cluster := simulated(t)
	ctx := t.Context()
	if err := cluster.SetNodeReady(ctx, "gpu-0", false); err != nil {
		t.Fatal(err)
	}
	tainted := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			node, err := cluster.Client().CoreV1().Nodes().Get(ctx, "gpu-0", metav1.GetOptions{})
			if err == nil && (len(node.Spec.Taints) > 0) != want {
				err = fmt.Errorf("node gpu-0 has taints %v, want some: %t", node.Spec.Taints, want)
			}
			return err
		}
	}
	eventually(t, 20*time.Second, tainted(true))
	create(t, cluster, gpuPod("first", 3, nil))
	create(t, cluster, gpuPod("second", 3, nil))
	eventually(t, 20*time.Second, func(ctx context.Context) error {
		pods, err := cluster.Client().CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=gpu-1"})
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("node gpu-1 has %d pods, want one", len(pods.Items))
		}
		return err
	})
	if err := cluster.SetNodeReady(ctx, "gpu-0", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, tainted(false))
	eventually(t, 20*time.Second, hasPhase(cluster, "first", corev1.PodRunning))
	eventually(t, 20*time.Second, hasPhase(cluster, "second", corev1.PodRunning))
}
