// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// conflict is an error if somebody else serves one of our resources on this node:
// the kubelet would take whichever plugin registered last, and hand out the same
// GPU twice. known are the devices that the kubelet counts as healthy, nil if it
// could not be asked; p says which of them could be ours.
func conflict(node *corev1.Node, known map[string][]string, names match.Names, p *pool.Pool) error {
	for _, k := range names.Served() {
		resource := names[k]
		if foreign := foreignDevice(known[resource], k, p); foreign != "" {
			return fmt.Errorf("another device plugin serves %s on node %s (device %q is not ours): remove it from the node, or name another resource or none by option %s",
				resource, node.Name, foreign, optionOf(k))
		}
		capacity, free := node.Status.Capacity[corev1.ResourceName(resource)], node.Status.Allocatable[corev1.ResourceName(resource)]
		if known == nil && capacity.Sign() > 0 && free.Sign() > 0 && !publishedByUs(node, resource) {
			return fmt.Errorf("node %s has %s %s from another device plugin (it carries no annotation %s of ours that lists it): remove that plugin from the node, or name another resource or none by option %s",
				node.Name, capacity.String(), resource, v1alpha1.AnnotationGPUs, optionOf(k))
		}
	}
	return nil
}

// foreignDevice is a device of the list that cannot be ours, "" if there is none.
func foreignDevice(ids []string, k pool.Kind, p *pool.Pool) string {
	at := slices.IndexFunc(ids, func(id string) bool {
		_, err := p.Shares(k, []string{id})
		return err != nil
	})
	if at < 0 {
		return ""
	}
	return ids[at]
}

func publishedByUs(node *corev1.Node, resource string) bool {
	v, err := v1alpha1.DecodeInventory(node.Annotations[v1alpha1.AnnotationGPUs])
	return err == nil && slices.ContainsFunc(v.GPUs, func(g v1alpha1.InventoryGPU) bool { return slices.Contains(g.Resources, resource) })
}

func optionOf(k pool.Kind) string {
	if k >= pool.Profiles {
		return "mig-resource-prefix or mig-strategy"
	}
	return k.String() + "-resource"
}
