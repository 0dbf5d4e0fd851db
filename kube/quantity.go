// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// largest bounds what is taken from a single quantity: of memory 64 PiB, more than
// the quota of any cluster. Quantities beyond it saturate, so that no request wraps
// into a small one.
const largest = int64(1) << 56

// milliOf returns q in thousandths, rounded up, saturated, at least 0.
func milliOf(q resource.Quantity) amount.Amount {
	if q.CmpInt64(largest/1000) >= 0 {
		return amount.Amount(largest)
	}
	return amount.Amount(max(q.MilliValue(), 0))
}

// unitsOf returns q in units of one, rounded up, saturated, at least 0.
func unitsOf(q resource.Quantity) amount.Amount {
	if q.CmpInt64(largest) >= 0 {
		return amount.Amount(largest)
	}
	return amount.Amount(max(q.Value(), 0))
}

// isGPU says whether a resource is accounted GPU by GPU and therefore absent
// from plain amounts.
func (c *Config) isGPU(name corev1.ResourceName) bool {
	switch string(name) {
	case c.GPUResource, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory:
		return true
	}
	return false
}

// isMIG returns the profile of a MIG resource.
func (c *Config) isMIG(name string) (profile string, ok bool) {
	return strings.CutPrefix(name, c.MIGResourcePrefix)
}

// quantities translates a resource list without the GPUs and the marker.
func (c *Config) quantities(list corev1.ResourceList) model.Quantities {
	out := make(model.Quantities, len(list))
	for name, q := range list {
		if c.isGPU(name) || string(name) == v1alpha1.ResourceQueued {
			continue
		}
		switch name {
		case corev1.ResourceCPU:
			out[model.ResourceCPU] = milliOf(q)
		case corev1.ResourceMemory:
			out[model.ResourceMemory] = unitsOf(q)
		default:
			out[c.ResourceName(string(name))] = unitsOf(q)
		}
	}
	return out
}

// ResourceName is core's name of a Kubernetes or Queue resource.
func (c *Config) ResourceName(name string) string {
	if profile, ok := c.isMIG(name); ok {
		return model.ResourceMIGPrefix + profile
	}
	return name
}

// ResourceQuantity is the way back: an amount of core's resource as people
// write it, with the name that a Queue uses. False for unlimited.
func (c *Config) ResourceQuantity(name string, a amount.Amount) (string, resource.Quantity, bool) {
	if a == amount.Unlimited {
		return "", resource.Quantity{}, false
	}
	if profile, ok := strings.CutPrefix(name, model.ResourceMIGPrefix); ok {
		name = c.MIGResourcePrefix + profile
	}
	switch {
	case inThousandths(name):
		return name, *resource.NewMilliQuantity(int64(a), resource.DecimalSI), true
	case name == model.ResourceMemory:
		return name, *resource.NewQuantity(int64(a), resource.BinarySI), true
	}
	return name, *resource.NewQuantity(int64(a), resource.DecimalSI), true
}

// inThousandths says whether core counts a resource in thousandths.
func inThousandths(name string) bool {
	return name == model.ResourceCPU || name == model.ResourceGPU ||
		strings.HasPrefix(name, model.ResourceGPUModelPrefix)
}
