// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/fairslice/fairslice/test/bed/binaries"
)

// Annotations by which a pod on a simulated node says how it lives. Durations
// as in "1.5s"; without them a pod starts at once, runs until it is deleted and
// is gone at once. A pod that is bound to no simulated node is left alone.
const (
	// StartAfter delays the pod's becoming Running and ready.
	StartAfter = "bed.fairslice.io/start-after"
	// SucceedAfter ends the pod as Succeeded that long after its start.
	SucceedAfter = "bed.fairslice.io/succeed-after"
	// FailAfter ends the pod as Failed, exit code 1, that long after its start.
	FailAfter = "bed.fairslice.io/fail-after"
	// GoneAfter is how long the pod takes to end after its deletion.
	GoneAfter = "bed.fairslice.io/gone-after"
)

// Annotations on simulated nodes: those that kwok keeps alive, and those that it
// must not revive.
const (
	simulated = "kwok.x-k8s.io/node"
	down      = "bed.fairslice.io/down"
)

//go:embed stages.yaml
var stages []byte

// StartKwok starts kwok, which plays the kubelet of every simulated node.
func (c *Cluster) StartKwok(ctx context.Context) error {
	kubeconfig, err := c.Kubeconfig("kwok", AdminGroup)
	if err != nil {
		return err
	}
	config := filepath.Join(c.folder, "etc", "kwok-stages.yaml")
	if err := os.WriteFile(config, stages, 0o644); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	return c.run(ctx, &process{
		name: Kwok, path: c.programs.Path(binaries.Kwok),
		args: []string{
			"--kubeconfig=" + kubeconfig, "--config=" + config,
			"--manage-nodes-with-annotation-selector=" + simulated + "=fake",
			"--node-lease-duration-seconds=40", "--cidr=10.0.0.0/8",
			fmt.Sprintf("--server-address=127.0.0.1:%d", port),
		},
		env:   []string{"HOME=" + c.folder}, // kwok reads ~/.kwok
		ready: httpReady(fmt.Sprintf("http://127.0.0.1:%d/healthz", port)),
	})
}

// SimulatedNode is a node without a machine.
type SimulatedNode struct {
	Name string
	// Allocatable is also the capacity; cpu, memory and pods default to 64,
	// 512Gi and 110.
	Allocatable corev1.ResourceList
	Labels      map[string]string
	Annotations map[string]string
	Taints      []corev1.Taint
}

// AddSimulatedNodes makes the nodes, ready to take pods. StartKwok, before or
// after, keeps them ready and runs their pods.
func (c *Cluster) AddSimulatedNodes(ctx context.Context, nodes ...SimulatedNode) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, node := range nodes {
		group.Go(func() error {
			if err := c.addSimulatedNode(ctx, node); err != nil {
				return fmt.Errorf("add simulated node %s: %w", node.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (c *Cluster) addSimulatedNode(ctx context.Context, spec SimulatedNode) error {
	api := c.client.CoreV1().Nodes()
	node, err := api.Create(ctx, spec.object(), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// Admission taints every new node as not ready, which the controller
	// manager takes back only after seconds.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if node == nil {
			if node, err = api.Get(ctx, spec.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		node.Spec.Taints = spec.Taints
		_, err := api.Update(ctx, node, metav1.UpdateOptions{})
		node = nil // another has changed it if there is a conflict
		return err
	})
}

// SetNodeReady takes a simulated node down, as a node that reports itself not
// ready, or brings it back.
func (c *Cluster) SetNodeReady(ctx context.Context, name string, ready bool) error {
	annotation, status, reason := `"true"`, corev1.ConditionFalse, "SimulatedFailure"
	if ready {
		annotation, status, reason = "null", corev1.ConditionTrue, "Simulated"
	}
	api := c.client.CoreV1().Nodes()
	mark := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, down, annotation)
	if _, err := api.Patch(ctx, name, types.MergePatchType, []byte(mark), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("set node %s ready %t: %w", name, ready, err)
	}
	now := metav1.Now().UTC().Format(time.RFC3339)
	condition := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"lastTransitionTime":%q,"lastHeartbeatTime":%q}]}}`, status, reason, now, now)
	if _, err := api.Patch(ctx, name, types.StrategicMergePatchType, []byte(condition), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("set node %s ready %t: %w", name, ready, err)
	}
	return nil
}

func (s SimulatedNode) object() *corev1.Node {
	allocatable := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	maps.Copy(allocatable, s.Allocatable)
	labels := map[string]string{
		corev1.LabelHostname: s.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	maps.Copy(labels, s.Labels)
	annotations := maps.Clone(s.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[simulated] = "fake"
	now := metav1.Now()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{Taints: slices.Clone(s.Taints)},
		Status: corev1.NodeStatus{
			Capacity: allocatable, Allocatable: allocatable,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: s.Name}},
		},
	}
}
