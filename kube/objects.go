// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// queueOf translates a Queue. divided are the resources that some queue gives
// a quota or weight: every queue without a weight for one of them has the
// default weight there.
func (c *Config) queueOf(q *v1alpha1.Queue, divided map[string]bool) model.Queue {
	out := model.Queue{
		Name:              q.Name,
		Parent:            q.Spec.Parent,
		Priority:          v1alpha1.DefaultQueuePriority,
		Quota:             c.amounts(q.Spec.Quota),
		Limit:             c.amounts(q.Spec.Limit),
		OverQuotaWeight:   model.Quantities{},
		CreatedAt:         q.CreationTimestamp.UnixNano(),
		PreemptMinRuntime: durationOr(q.Spec.PreemptMinRuntime, -1),
		ReclaimMinRuntime: durationOr(q.Spec.ReclaimMinRuntime, -1),
	}
	if q.Spec.Priority != nil {
		out.Priority = *q.Spec.Priority
	}
	if n := q.Spec.EvictionsPerMinute; n != nil {
		out.EvictionsPerMinute = int(orNone(*n))
	}
	out.PreemptionDelay = delayOf(q.Spec.PreemptionDelay)
	for name := range divided {
		out.OverQuotaWeight[name] = v1alpha1.DefaultOverQuotaWeight
	}
	for name, weight := range q.Spec.OverQuotaWeight {
		out.OverQuotaWeight[c.ResourceName(name)] = amount.Amount(max(weight, 0))
	}
	return out
}

// QueueAmounts translates a queue's quota and limit to core's names and units.
func (c *Config) QueueAmounts(q *v1alpha1.Queue) model.Queue { return c.queueOf(q, nil) }

// dividedBy adds the resources that q gives a quota or weight. The part of one
// GPU model takes its weight from that of all GPUs.
func (c *Config) dividedBy(q *v1alpha1.Queue, divided map[string]bool) {
	note := func(name string) {
		if model.IsGPUModel(name) {
			name = model.ResourceGPU
		}
		divided[c.ResourceName(name)] = true
	}
	for name := range q.Spec.Quota {
		note(name)
	}
	for name := range q.Spec.OverQuotaWeight {
		note(name)
	}
}

// amounts translates quotas and limits to core's names and units.
func (c *Config) amounts(in v1alpha1.ResourceAmounts) model.Quantities {
	out := make(model.Quantities, len(in))
	for name, a := range in {
		q, finite := a.Quantity()
		switch {
		case !finite:
			out[c.ResourceName(name)] = amount.Unlimited
		case inThousandths(name):
			out[name] = milliOf(q)
		default:
			out[c.ResourceName(name)] = unitsOf(q)
		}
	}
	return out
}

func topologyOf(t *v1alpha1.Topology) model.Topology {
	out := model.Topology{Name: t.Name}
	for _, level := range t.Spec.Levels {
		out.Levels = append(out.Levels, level.NodeLabel)
	}
	return out
}

func constraintOf(t *v1alpha1.TopologyConstraint) *model.TopologyConstraint {
	if t == nil {
		return nil
	}
	return &model.TopologyConstraint{Topology: t.Name, Required: t.Required, Preferred: t.Preferred}
}

func subGroupsOf(in []v1alpha1.SubGroup) []model.SubGroup {
	inner := map[string]bool{}
	for _, s := range in {
		inner[s.Parent] = true
	}
	var out []model.SubGroup
	for _, s := range in {
		sub := model.SubGroup{
			Name: s.Name, Parent: s.Parent,
			MinSubGroup: minSubGroup(s.MinSubGroup),
			Topology:    constraintOf(s.Topology),
		}
		if !inner[s.Name] {
			sub.MinMember = intOr(s.MinMember, v1alpha1.DefaultMinMember)
		}
		out = append(out, sub)
	}
	return out
}

// minSubGroup tells an explicit 0 from what is left out.
func minSubGroup(n *int32) int {
	if n != nil && *n == 0 {
		return model.NoSubGroup
	}
	return intOr(n, 0)
}

func intOr(n *int32, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(*n)
}

func durationOr(d *metav1.Duration, otherwise int64) int64 {
	if d == nil {
		return otherwise
	}
	return int64(d.Duration / time.Nanosecond)
}

// delayOf is a delay that may be unset, as core writes it: 0 for unset and -1 for
// none.
func delayOf(d *metav1.Duration) int64 {
	if d == nil {
		return 0
	}
	return orNone(int64(d.Duration / time.Nanosecond))
}

// orNone is n, or -1 where it is 0, which core takes for unset.
func orNone[N int32 | int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}
