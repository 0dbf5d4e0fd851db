// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// nodeFacts is what the ledger keeps of a node.
type nodeFacts struct {
	node model.Node
	// identified is true if the GPUs' IDs are UUIDs, false where the kubelet
	// alone knows which GPU it hands out.
	identified bool
	offered    offer
	// trouble is what is wrong with the node's annotation, "" if nothing is.
	trouble string
}

// nodeFactsOf translates a node. A bad annotation makes the node's GPUs
// unusable and nothing else.
func (c *Config) nodeFactsOf(n *corev1.Node) nodeFacts {
	f := nodeFacts{node: model.Node{
		Name:          n.Name,
		Ready:         nodeReady(n),
		Unschedulable: n.Spec.Unschedulable,
		Labels:        n.Labels,
		Allocatable:   c.quantities(n.Status.Allocatable),
		MIGStrategy:   migStrategy(n),
		Isolation:     isolationLevels[n.Labels[v1alpha1.LabelGPUIsolation]],
	}}
	f.offered = c.offerOf(n.Status.Allocatable)
	for _, t := range n.Spec.Taints {
		f.node.Taints = append(f.node.Taints, model.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	annotation, ok := n.Annotations[v1alpha1.AnnotationGPUs]
	if !ok {
		f.node.GPUs = c.countedGPUs(n)
		return f
	}
	inventory, err := v1alpha1.DecodeInventory(annotation)
	if err != nil {
		f.trouble = fmt.Sprintf("node %s: %s; its GPUs are not used", n.Name, err)
		return f
	}
	f.identified = true
	f.node.GPUs = c.inventoriedGPUs(n, inventory)
	// The inventory tells cards and instances apart, GPU by GPU.
	f.node.MIGStrategy = ""
	c.trimInstances(f.node.Allocatable, inventory)
	return f
}

// nodeReady is false only if the node says so: kube-scheduler goes by taints.
func nodeReady(n *corev1.Node) bool {
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return true
}

func migStrategy(n *corev1.Node) string {
	switch s := n.Labels[labelNVIDIAMIGStrategy]; s {
	case "single", "mixed":
		return s
	}
	return ""
}

// inventoriedGPUs lists what the device plugin serves. While the kubelet
// offers nothing of it, the plugin is away: no GPU takes new containers then,
// although the annotation still lists them.
func (c *Config) inventoriedGPUs(n *corev1.Node, inventory v1alpha1.Inventory) []model.GPU {
	served := false
	for _, g := range inventory.GPUs {
		served = served || slices.ContainsFunc(g.Resources, func(r string) bool {
			q := n.Status.Allocatable[corev1.ResourceName(r)]
			return q.Sign() > 0
		})
	}
	gpus := make([]model.GPU, 0, len(inventory.GPUs))
	for _, g := range inventory.GPUs {
		if c.isCounted(g) {
			continue
		}
		gpus = append(gpus, model.GPU{
			ID:         g.UUID,
			Model:      g.Model,
			MemoryMiB:  min(g.MemoryMiB, maxMemoryGiB*mibPerGiB),
			Healthy:    g.Healthy && served,
			MaxSharers: g.MaxSharers,
			Shareable: slices.Contains(g.Resources, v1alpha1.ResourceGPUSlice) ||
				slices.Contains(g.Resources, v1alpha1.ResourceGPUMemory),
		})
	}
	return gpus
}

// isCounted is true for a MIG instance that is asked for by its profile: one is as
// good as another, so they are counted, as any extended resource.
func (c *Config) isCounted(g v1alpha1.InventoryGPU) bool {
	return g.MIG != "" && !slices.ContainsFunc(g.Resources, func(r string) bool { return c.isGPU(corev1.ResourceName(r)) })
}

// trimInstances lowers the counted MIG instances to those that are healthy: the
// kubelet's count follows the device plugin's some seconds later.
func (c *Config) trimInstances(allocatable model.Quantities, inventory v1alpha1.Inventory) {
	healthy := map[string]amount.Amount{}
	for _, g := range inventory.GPUs {
		for _, r := range g.Resources {
			if _, isMIG := c.isMIG(r); !isMIG {
				continue
			}
			name := c.ResourceName(r)
			if _, seen := healthy[name]; !seen {
				healthy[name] = 0
			}
			if g.Healthy {
				healthy[name]++
			}
		}
	}
	for name, n := range healthy {
		if offered, ok := allocatable[name]; ok {
			allocatable[name] = min(offered, n)
		}
	}
}

// countedGPUs stands for the whole GPUs of a node without our device plugin:
// as many as its capacity, of which those beyond allocatable are unhealthy. The
// last ones are called unhealthy, so that what is free is what the kubelet
// would still give: allocatable less what is in use.
func (c *Config) countedGPUs(n *corev1.Node) []model.GPU {
	capacity := countOf(n.Status.Capacity, c.GPUResource)
	allocatable := countOf(n.Status.Allocatable, c.GPUResource)
	gpuModel := n.Labels[labelNVIDIAProduct]
	if gpuModel == "" {
		gpuModel = n.Labels[v1alpha1.LabelGPUModel]
	}
	memory, err := strconv.ParseInt(n.Labels[labelNVIDIAMemoryMiB], 10, 64)
	if err != nil || memory < 0 || memory > maxMemoryGiB*mibPerGiB {
		memory = 0
	}
	var gpus []model.GPU
	for i := range max(capacity, allocatable) {
		gpus = append(gpus, model.GPU{
			ID: fmt.Sprintf("gpu-%04d", i), Model: gpuModel, MemoryMiB: memory, Healthy: i < allocatable,
		})
	}
	return gpus
}

func countOf(list corev1.ResourceList, name string) int {
	q, ok := list[corev1.ResourceName(name)]
	if !ok {
		return 0
	}
	return int(min(unitsOf(q), maxGPUs))
}
