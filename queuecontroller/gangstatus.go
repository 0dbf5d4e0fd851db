// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
)

// groupStatus is the status that a gang should have.
func groupStatus(g kube.GroupView) v1alpha1.PodGroupStatus {
	out := *g.Object.Status.DeepCopy()
	out.ObservedGeneration = g.Object.Generation
	out.Queue = g.Queue
	out.MinMember = int32(g.Gang.Minimum)
	out.Members = int32(g.Members)
	out.Placed = int32(g.Gang.Assumed + g.Gang.Bound)
	out.Running = int32(g.Running)
	out.Succeeded = int32(g.Gang.Succeeded)
	out.Failed = int32(g.Failed)
	out.SubGroups = g.SubGroups
	out.Phase = g.Phase
	scheduled, degraded := scheduledCondition(g), degradedCondition(g)
	out.Message = ""
	switch {
	case degraded.Reason != v1alpha1.ReasonComplete:
		out.Message = degraded.Message
	case g.Reason != nil:
		out.Message = g.Reason.Message
	case scheduled.Status == metav1.ConditionFalse:
		out.Message = scheduled.Message
	}
	for _, c := range []metav1.Condition{scheduled, degraded} {
		c.ObservedGeneration = g.Object.Generation
		meta.SetStatusCondition(&out.Conditions, c)
	}
	if g.StaleSince != 0 {
		meta.FindStatusCondition(out.Conditions, v1alpha1.ConditionDegraded).LastTransitionTime = degraded.LastTransitionTime
	}
	return out
}

// onlyReworded is true if two statuses differ in their sentences alone.
func onlyReworded(before, after v1alpha1.PodGroupStatus) bool {
	after = *after.DeepCopy()
	if before.Message != "" && after.Message != "" {
		after.Message = before.Message
	}
	for i := range after.Conditions {
		c := &after.Conditions[i]
		if old := meta.FindStatusCondition(before.Conditions, c.Type); old != nil && old.Reason == c.Reason {
			c.Message = old.Message
		}
	}
	return equality.Semantic.DeepEqual(before, after)
}

// scheduledCondition says whether the minimum is bound, and why not.
func scheduledCondition(g kube.GroupView) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonMembersMissing, Message: fmt.Sprintf("%d of the %d pods that must start together exist", g.Members, g.Gang.Minimum),
	}
	bound := fmt.Sprintf("%d of the %d pods that must run together are bound", g.Gang.Bound+g.Gang.Succeeded, g.Gang.Minimum)
	switch {
	case g.Phase == v1alpha1.PodGroupFinished,
		!g.Short && (g.Phase == v1alpha1.PodGroupRunning || g.Phase == v1alpha1.PodGroupStarting):
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonScheduled, "all that must start together is bound"
	case g.Phase == v1alpha1.PodGroupScheduling:
		c.Reason, c.Message = v1alpha1.ReasonWaitingForTurn, "room is planned for all that must start together and not all are bound"
	case g.Reason != nil:
		c.Reason, c.Message = reasonOf(g.Reason.Code), g.Reason.Message
	case g.Short:
		c.Message = bound + ", and no pod waits that could be another one"
	}
	return c
}

// degradedCondition says whether a gang that ran is below its minimum. Its time
// is when the grace began, and its reason tells the control plane after a
// restart what was going on.
func degradedCondition(g kube.GroupView) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonComplete, Message: "no member is missing that ran",
	}
	has := fmt.Sprintf("%d of the %d pods that must run together are there", g.Gang.Assumed+g.Gang.Bound+g.Gang.Succeeded, g.Gang.Minimum)
	if g.StaleSince != 0 {
		c.LastTransitionTime = metav1.NewTime(time.Unix(0, g.StaleSince).Truncate(time.Second))
	}
	switch {
	case g.Phase == v1alpha1.PodGroupStale:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonStale
		c.Message = has + ": what is left of the gang is evicted, so that it starts whole again"
	case g.StaleSince != 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonMembersLost
		c.Message = has + graceEnd(g)
	case g.Phase == v1alpha1.PodGroupDegraded:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonFinishing
		c.Message = has + "; as members have finished, the others are left to finish too"
	case g.Short:
		c.Reason = v1alpha1.ReasonMinimumRaised
		c.Message = has + "; the minimum was raised, and nobody is evicted for that"
	}
	return c
}

// noGrace is longer than any grace that ends.
const noGrace = int64(10 * 365 * 24 * time.Hour)

// graceEnd says when what is left is evicted.
func graceEnd(g kube.GroupView) string {
	if g.Grace > noGrace {
		return "; the others stay for as long as it takes"
	}
	return "; the others are evicted at " + time.Unix(0, g.StaleSince+g.Grace).UTC().Format(time.RFC3339) + " unless the lost ones are replaced"
}
