// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"time"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/model"
)

// Config is what an administrator may set of the translation.
type Config struct {
	// GPUResource is the extended resource of whole GPUs.
	GPUResource string
	// MIGResourcePrefix precedes a MIG profile in a resource name.
	MIGResourcePrefix string
	// QueueLabel names the queue on pods and namespaces.
	QueueLabel string
	// DefaultQueue takes pods that ask for GPU and name no queue.
	DefaultQueue string
	// PreemptibleBelow is the priority from which on a workload is
	// non-preemptible unless it says otherwise.
	PreemptibleBelow int32
	// StuckAfter is how long after the end of its grace period a pod that
	// still exists is given up on: nothing waits for its room any more.
	StuckAfter time.Duration
	// EvictionsPerMinute and QueueEvictionsPerMinute bound evictions for
	// claimants, in all and in each leaf queue that victims are in; 0 is no
	// bound.
	EvictionsPerMinute, QueueEvictionsPerMinute int
	// PreemptionDelay is how long a workload waits for free room before others
	// have to give way, unless its PodGroup says otherwise.
	PreemptionDelay time.Duration
	// EvictionBackoff is how long a workload that was evicted is no victim
	// again, doubled with every further eviction up to 16 times; 0 is not at
	// all.
	EvictionBackoff time.Duration
	// UsageHalfLife is how long it takes until what a queue used counts half;
	// with 0 past usage does not count. UsageWindow is how far back it counts at
	// all.
	UsageHalfLife, UsageWindow time.Duration
	// Settings of the decisions.
	Settings model.Settings
}

// DefaultConfig is that of a fresh installation.
func DefaultConfig() Config {
	return Config{
		GPUResource:       v1alpha1.ResourceWholeGPU,
		MIGResourcePrefix: "nvidia.com/mig-",
		QueueLabel:        v1alpha1.LabelQueue,
		DefaultQueue:      v1alpha1.DefaultQueue,
		PreemptibleBelow:  100,
		StuckAfter:        5 * time.Minute,
		UsageWindow:       7 * 24 * time.Hour,
		Settings:          model.DefaultSettings(),
	}
}

// Labels that other components write on GPU nodes.
const (
	labelNVIDIAProduct     = "nvidia.com/gpu.product"
	labelNVIDIAMemoryMiB   = "nvidia.com/gpu.memory"
	labelNVIDIAMIGStrategy = "nvidia.com/mig.strategy"
)

// isolationLevels ranks the values of LabelGPUIsolation and
// AnnotationMinIsolation.
var isolationLevels = map[string]int{
	"none": 0, "watch": 1, "intercept": 2, "mps": 3, "cgroup": 4, "mig": 5,
}
