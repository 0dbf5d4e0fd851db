// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// TestAStandbyForgets: what has come and gone while others decided leaves no
// trace.
func TestAStandbyForgets(t *testing.T) {
	p := newPlayer()
	l := p.ledger
	p.queue("q", args{})
	for i := range 1000 {
		name := fmt.Sprintf("p%d", i)
		a := args{"ns": name, "queue": "q", "gpu": "1", "owner": name}
		switch i % 5 {
		case 0:
			a["group"] = name
		case 1:
			l.SetMembership(name, membershipOf(args{"gang": "job/" + name, "min": "2"}))
		}
		pod := podOf(name, a, p.time)
		l.SetPod(pod)
		pod = pod.DeepCopy()
		setLife(pod, args{"node": "n1", "phase": "Running"}, p.time)
		if i%5 == 2 {
			pod.Annotations[v1alpha1.AnnotationGPUAssignment] = "scribble"
		}
		l.SetPod(pod)
		pod = pod.DeepCopy()
		setLife(pod, args{"node": "n1", "phase": "Failed", "kubelet": "TopologyAffinityError"}, p.time)
		l.SetPod(pod)
		l.RemovePod(name)
	}
	p.time = p.time.Add(3 * time.Hour)
	l.Tidy()
	cluster := reflect.ValueOf(l.cluster).Elem()
	for what, n := range map[string]int{
		"pods": len(l.pods), "workloads": len(l.workloads), "dirty": len(l.dirty), "memberships": len(l.memberships),
		"namespaces": len(l.index.namespaces), "unbudgeted": len(l.unbudgeted), "turned": len(l.turned),
		"troubles": len(l.troubles), "troubles to tell": len(l.newTroubles),
		"the cluster's workloads": cluster.FieldByName("workloads").Len(), "and those to settle": cluster.FieldByName("dirtyWork").Len(),
	} {
		if n != 0 {
			t.Errorf("%s: %d are left", what, n)
		}
	}
}

// lives are how far a pod may have come.
var lives = [][]string{
	nil, {"nominated=n1"}, {"node=n1", "phase=Running"}, {"node=n1", "phase=Running", "deleting"},
	{"node=n1", "phase=Succeeded"}, {"node=n1", "phase=Failed"}, {"node=n1", "phase=Failed", "kubelet=OutOfgpu"},
}

// TestAStandbyThatForgotDecidesTheSame: who was tidied at any moment shows and
// decides what one shows and decides that was not.
func TestAStandbyThatForgotDecidesTheSame(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		plain, tidied := newPlayer(), newPlayer()
		both := func(do func(*player)) {
			do(plain)
			do(tidied)
		}
		const key = "default/job/j"
		shown := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: ShownName(key), Annotations: map[string]string{v1alpha1.AnnotationGang: key},
		}}
		shown.Status.Succeeded = int32(rapid.IntRange(0, 1).Draw(t, "finished members of the derived gang"))
		both(func(p *player) {
			p.queue("q", args{})
			p.node("n1", args{"gpus": "4"})
			p.ledger.SetPodGroup(shown)
			p.podGroup("g", args{"min": "2"})
		})
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			event := rapid.SampledFrom([]string{"pod", "pod", "gang", "gang", "member", "gone", "group", "pass", "tidy", "tidy"}).Draw(t, "event")
			switch event {
			case "pod", "gang":
				a := args{"uid": event + name, "queue": "q", "gpu": "1", "owner": "o"}
				if event == "gang" {
					a["group"] = "g"
				}
				for _, key := range rapid.SampledFrom(lives).Draw(t, "life") {
					name, value, _ := strings.Cut(key, "=")
					a[name] = value
				}
				both(func(p *player) { p.ledger.SetPod(podOf(event+name, a, p.time)) })
			case "member":
				both(func(p *player) { p.ledger.SetMembership("pod"+name, membershipOf(args{"gang": "job/j", "min": "2"})) })
			case "gone":
				uid := rapid.SampledFrom([]string{"pod", "gang"}).Draw(t, "which") + name
				both(func(p *player) { p.ledger.RemovePod(uid) })
			case "group":
				g := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}}
				g.Spec.MinMember = new(int32(2))
				g.Status.Phase = rapid.SampledFrom([]v1alpha1.PodGroupPhase{"", v1alpha1.PodGroupRunning, v1alpha1.PodGroupDegraded}).Draw(t, "phase")
				g.Status.Succeeded = int32(rapid.IntRange(0, 2).Draw(t, "succeeded"))
				if g.Status.Phase == v1alpha1.PodGroupDegraded {
					g.Status.Conditions = []metav1.Condition{{
						Type: v1alpha1.ConditionDegraded, Reason: v1alpha1.ReasonMembersLost, LastTransitionTime: metav1.NewTime(plain.time),
					}}
				}
				both(func(p *player) { p.ledger.SetPodGroup(g) })
			case "pass":
				both(func(p *player) { p.time = p.time.Add(50 * time.Second) })
			case "tidy":
				tidied.ledger.Tidy()
			}
		}
		for _, step := range []func(*player) any{
			func(p *player) any { p.ledger.Adopt(); return nil },
			func(p *player) any { return p.ledger.Decide().Plan },
			func(p *player) any { return p.ledger.Groups() },
			func(p *player) any { return p.ledger.Queues() },
			func(p *player) any { return p.ledger.Dump() },
		} {
			if diff := cmp.Diff(step(plain), step(tidied)); diff != "" {
				t.Fatalf("who was tidied differs:\n%s", diff)
			}
		}
	})
}
