// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// TestGangStatus: what a gang's status says in each phase.
func TestGangStatus(t *testing.T) {
	lost := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	minute := int64(time.Minute)
	for _, c := range []struct {
		name                string
		view                kube.GroupView
		scheduled, degraded string // status and reason
		message             string
	}{
		{
			"nobody is there",
			kube.GroupView{Phase: v1alpha1.PodGroupPending, Members: 7, Gang: kube.GangView{Minimum: 8}},
			"False MembersMissing", "False Complete", "7 of the 8 pods that must start together exist",
		},
		{"no room", kube.GroupView{
			Phase: v1alpha1.PodGroupWaiting, Members: 8, Gang: kube.GangView{Minimum: 8}, Reason: &explain.Reason{Code: explain.GangDoesNotFit, Message: "no room"},
		}, "False NoRoom", "False Complete", "no room"},
		{
			"has a place",
			kube.GroupView{Phase: v1alpha1.PodGroupScheduling, Members: 8, Gang: kube.GangView{Minimum: 8, Promised: 4, Assumed: 4}},
			"False WaitingForTurn", "False Complete", "room is planned",
		},
		{"is bound", kube.GroupView{Phase: v1alpha1.PodGroupStarting, Members: 8, Gang: kube.GangView{Minimum: 8, Bound: 8}}, "True Scheduled", "False Complete", ""},
		{"runs", kube.GroupView{Phase: v1alpha1.PodGroupRunning, Members: 6, Gang: kube.GangView{Minimum: 8, Bound: 6, Succeeded: 2}}, "True Scheduled", "False Complete", ""},
		{"extras wait", kube.GroupView{
			Phase: v1alpha1.PodGroupRunning, Members: 9, Gang: kube.GangView{Minimum: 8, Bound: 8}, Reason: &explain.Reason{Code: explain.NoNodeFits, Message: "no room"},
		}, "True Scheduled", "False Complete", "no room"},
		{
			"raised",
			kube.GroupView{Phase: v1alpha1.PodGroupRunning, Members: 2, Gang: kube.GangView{Minimum: 6, Bound: 2}, Short: true},
			"False MembersMissing", "False MinimumRaised", "2 of the 6 pods that must run together are there; the minimum was raised, and nobody is evicted for that",
		},
		{
			"lost",
			kube.GroupView{Phase: v1alpha1.PodGroupDegraded, Members: 5, Gang: kube.GangView{Minimum: 8, Bound: 5}, Short: true, StaleSince: lost.UnixNano(), Grace: minute},
			"False MembersMissing", "True MembersLost", "5 of the 8 pods that must run together are there; the others are evicted at 2026-11-30T12:01:00Z unless the lost ones are replaced",
		},
		{
			"lost for ever",
			kube.GroupView{Phase: v1alpha1.PodGroupDegraded, Members: 5, Gang: kube.GangView{Minimum: 8, Bound: 5}, Short: true, StaleSince: lost.UnixNano(), Grace: noGrace + 1},
			"False MembersMissing", "True MembersLost", "the others stay for as long as it takes",
		},
		{
			"finishing",
			kube.GroupView{Phase: v1alpha1.PodGroupDegraded, Members: 5, Gang: kube.GangView{Minimum: 8, Bound: 5, Succeeded: 1}, Short: true},
			"False MembersMissing", "True Finishing", "6 of the 8 pods that must run together are there; as members have finished, the others are left to finish too",
		},
		{
			"given up",
			kube.GroupView{Phase: v1alpha1.PodGroupStale, Members: 5, Gang: kube.GangView{Minimum: 8, Bound: 5}, Short: true, StaleSince: lost.UnixNano(), Grace: minute},
			"False MembersMissing", "True Stale", "what is left of the gang is evicted, so that it starts whole again",
		},
		{"finished", kube.GroupView{Phase: v1alpha1.PodGroupFinished, Gang: kube.GangView{Minimum: 8, Succeeded: 7}, Failed: 1}, "True Scheduled", "False Complete", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.view.Object = &v1alpha1.PodGroup{}
			status := groupStatus(c.view)
			for kind, want := range map[string]string{v1alpha1.ConditionScheduled: c.scheduled, v1alpha1.ConditionDegraded: c.degraded} {
				got := meta.FindStatusCondition(status.Conditions, kind)
				if text := string(got.Status) + " " + got.Reason; text != want {
					t.Errorf("%s is %s, want %s", kind, text, want)
				}
			}
			if !strings.Contains(status.Message, c.message) || c.message == "" && status.Message != "" {
				t.Errorf("the message is %q, want %q in it", status.Message, c.message)
			}
			at := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded).LastTransitionTime
			if c.view.StaleSince != 0 && !at.Time.Equal(lost) {
				t.Errorf("degraded since %s, want %s", at, lost)
			}
			c.view.Object.Status = status
			if again := groupStatus(c.view); !equality.Semantic.DeepEqual(again, status) {
				t.Errorf("the status of a gang that did not change differs: %+v, before %+v", again, status)
			}
		})
	}
}
