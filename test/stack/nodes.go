// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
)

// GPUNode is a simulated node with what the device plugin would have written
// on it.
type GPUNode struct {
	Name      string
	GPUs      int
	Model     string
	MemoryMiB int64 // of each GPU
	Labels    map[string]string
}

// A100 is a node of n GPUs with 40 GB.
func A100(name string, n int) GPUNode {
	return GPUNode{Name: name, GPUs: n, Model: "NVIDIA-A100-SXM4-40GB", MemoryMiB: 40960}
}

// H100 is a node of n GPUs with 80 GB.
func H100(name string, n int) GPUNode {
	return GPUNode{Name: name, GPUs: n, Model: "NVIDIA-H100-80GB-HBM3", MemoryMiB: 81559}
}

// Inventory is what the device plugin publishes on the node.
func (n GPUNode) Inventory() v1alpha1.Inventory {
	inventory := v1alpha1.Inventory{Version: v1alpha1.CodecVersion}
	for i := range n.GPUs {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s/%d", n.Name, i)
		uuid := fmt.Sprintf("GPU-%016x-%d", h.Sum64(), i)
		inventory.GPUs = append(inventory.GPUs, v1alpha1.InventoryGPU{
			UUID: uuid, ID: uuid[4:12], Index: i, Model: n.Model, MemoryMiB: n.MemoryMiB, NUMANode: -1, Healthy: true,
			Resources: []string{v1alpha1.ResourceWholeGPU, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory},
		})
	}
	return inventory
}

// AddGPUNodes makes simulated nodes.
func (s *Stack) AddGPUNodes(ctx context.Context, nodes ...GPUNode) error {
	specs := make([]bed.SimulatedNode, 0, len(nodes))
	for _, n := range nodes {
		inventory, err := n.Inventory().Encode()
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		units := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
		labels := map[string]string{
			v1alpha1.LabelGPUModel: n.Model, v1alpha1.LabelGPUCount: fmt.Sprint(n.GPUs),
			v1alpha1.LabelGPUMemory: fmt.Sprint(n.MemoryMiB), v1alpha1.LabelGPUIsolation: "none",
		}
		maps.Copy(labels, n.Labels)
		specs = append(specs, bed.SimulatedNode{
			Name: n.Name, Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationGPUs: inventory},
			Allocatable: corev1.ResourceList{
				v1alpha1.ResourceWholeGPU:  units(int64(n.GPUs)),
				v1alpha1.ResourceGPUSlice:  units(int64(n.GPUs) * 100),
				v1alpha1.ResourceGPUMemory: units(int64(n.GPUs) * (n.MemoryMiB / 1024)),
			},
		})
	}
	return s.AddSimulatedNodes(ctx, specs...)
}
