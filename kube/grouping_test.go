// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
)

// TestMembership plays what a Grouper says, beside the commands of TestLedger:
//
//	member uid=u [gang=job/j] [min=2] [subs=(x,y) x=1 y=2] [later=x] [sub=x] [queue=q]
//	       [leader] [rank=0] [lost] [waits=why]
//	nothing uid=u
//	why uid=u
func TestMembership(t *testing.T) {
	datadriven.Walk(t, "testdata/grouping", func(t *testing.T, path string) {
		p := newPlayer()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			_, a := argsOf(d)
			switch d.Cmd {
			case "member":
				p.ledger.SetMembership(a["uid"], membershipOf(a))
				return p.holdings()
			case "nothing":
				p.ledger.SetMembership(a["uid"], nil)
				return p.holdings()
			case "why":
				v, _ := p.ledger.Lookup(a["uid"])
				if v.Reason == nil {
					return fmt.Sprintf("workload=%s queue=%s\n", v.Workload, v.Queue)
				}
				return fmt.Sprintf("workload=%s queue=%s %s: %s\n", v.Workload, v.Queue, v.Reason.Code, v.Reason.Message)
			}
			out, err := p.play(d)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

func membershipOf(a args) *Membership {
	m := &Membership{SubGroup: a["sub"], Leader: a.has("leader"), NotRecreated: a.has("lost")}
	if a.has("rank") {
		m.Rank = new(a.number("rank", 0))
	}
	if a.has("waits") {
		m.Waits = &explain.Reason{Code: GroupUnknown, Message: a["waits"]}
		return m
	}
	m.Group = &Group{Key: "default/" + a["gang"], Later: strings.Fields(strings.ReplaceAll(a["later"], ",", " "))}
	m.Group.Spec.Queue = a["queue"]
	if a.has("min") {
		m.Group.Spec.MinMember = new(int32(a.number("min", 1)))
	}
	for name := range strings.FieldsSeq(strings.ReplaceAll(a["subs"], ",", " ")) {
		m.Group.Spec.SubGroups = append(m.Group.Spec.SubGroups, v1alpha1.SubGroup{Name: name, MinMember: new(int32(a.number(name, 1)))})
	}
	return m
}

// TestTrimKeepsWhatGroupingReads: the grouper sees pods as the informer stores
// them.
func TestTrimKeepsWhatGroupingReads(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{"any": "label"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "j"}},
			Annotations: map[string]string{
				v1alpha1.AnnotationMinMember: "2", "kai.scheduler/topology": "t", v1alpha1.MigrationPodGroup: "g", "somebody/else": "x",
			},
		},
		Spec: corev1.PodSpec{PriorityClassName: "high", SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: new("g")}},
	}
	if _, err := trimPod(pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Labels) != 1 || len(pod.OwnerReferences) != 1 || len(pod.Annotations) != 3 ||
		pod.Spec.PriorityClassName != "high" || pod.Spec.SchedulingGroup == nil {
		t.Errorf("of the pod there is left: %+v %+v", pod.ObjectMeta, pod.Spec)
	}
}
