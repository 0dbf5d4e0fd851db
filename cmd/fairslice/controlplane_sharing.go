// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairslice/fairslice/kube"
)

// sharingFlags are what an administrator may set of how queues share: how the
// past counts, and how gently room is taken from others.
func (p *controlPlane) sharingFlags(cmd *cobra.Command) {
	c, f := &p.config, cmd.Flags()
	f.DurationVar(&c.UsageHalfLife, "usage-half-life", c.UsageHalfLife, "how long it takes until what a queue used counts half in the division of spare capacity; 0 does not count past usage")
	f.DurationVar(&c.UsageWindow, "usage-window", c.UsageWindow, "how far back past usage counts at all")
	f.Int64Var(&c.Settings.UsageFactor, "usage-factor", c.Settings.UsageFactor, "how strongly past usage counts (k), in thousandths")
	f.IntVar(&c.EvictionsPerMinute, "evictions-per-minute", c.EvictionsPerMinute, "most pods evicted a minute for others; 0 is any number")
	f.IntVar(&c.QueueEvictionsPerMinute, "queue-evictions-per-minute", c.QueueEvictionsPerMinute, "most pods of one queue evicted a minute for others, unless the queue or one above sets evictionsPerMinute; 0 is any number")
	f.DurationVar(&c.PreemptionDelay, "preemption-delay", c.PreemptionDelay, "how long a workload waits for free room before others are evicted for it, unless its PodGroup or queue sets preemptionDelay")
	f.DurationVar(&c.EvictionBackoff, "eviction-backoff", c.EvictionBackoff, "how long a workload that was evicted is not evicted again, unless its queue sets evictionBackoff; doubled each time up to 16-fold; 0 is not at all")
	f.DurationVar((*time.Duration)(&c.Settings.PreemptMinRuntime), "preempt-min-runtime", 0, "how long a workload runs before others of its queue may preempt it, where no queue sets preemptMinRuntime")
	f.DurationVar((*time.Duration)(&c.Settings.ReclaimMinRuntime), "reclaim-min-runtime", 0, "how long a workload runs before its room may be reclaimed, where no queue sets reclaimMinRuntime")
}

// checkSharing refuses values of the sharing flags that mean nothing.
func checkSharing(c *kube.Config) error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"usage-half-life", c.UsageHalfLife},
		{"preemption-delay", c.PreemptionDelay},
		{"eviction-backoff", c.EvictionBackoff},
		{"preempt-min-runtime", time.Duration(c.Settings.PreemptMinRuntime)},
		{"reclaim-min-runtime", time.Duration(c.Settings.ReclaimMinRuntime)},
	} {
		if d.value < 0 || d.value > mostTime {
			return fmt.Errorf("--%s is %s; allowed are 0 to %s", d.flag, d.value, mostTime)
		}
	}
	if c.UsageWindow < time.Minute || c.UsageWindow > mostTime {
		return fmt.Errorf("--usage-window is %s; allowed are 1m to %s", c.UsageWindow, mostTime)
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{
		{"usage-factor", c.Settings.UsageFactor},
		{"evictions-per-minute", int64(c.EvictionsPerMinute)},
		{"queue-evictions-per-minute", int64(c.QueueEvictionsPerMinute)},
	} {
		if n.value < 0 || n.value > mostNumber {
			return fmt.Errorf("--%s is %d; allowed are 0 to %d", n.flag, n.value, mostNumber)
		}
	}
	return nil
}

// What flags may say at most: a year, and a number that no product with an
// amount carries out of range.
const (
	mostTime   = 365 * 24 * time.Hour
	mostNumber = 1_000_000
)
