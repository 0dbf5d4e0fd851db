// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

// givenUpAfterASecond lets the node controller give the pod up a second after its
// node is found dead, instead of after five minutes, and nothing ever end it
// there: the API server shows it as terminating.
func givenUpAfterASecond(p *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1)),
		})
	}
	p.Annotations[bed.GoneAfter] = "1h"
}

// nodeOf is where the pod of that UID is.
func (f fixture) nodeOf(uid types.UID) string {
	f.t.Helper()
	for _, p := range f.pods() {
		if p.UID == uid {
			return p.Spec.NodeName
		}
	}
	return ""
}

// TestDeadNodeTakesOneMember: the pod on the dead node is terminating for ever;
// its replacement runs elsewhere, the other member stays, and when the node is
// deleted nothing changes any more.
func TestDeadNodeTakesOneMember(t *testing.T) {
	f := use(t, stack.A100("dead1", 2), stack.A100("dead2", 2), stack.A100("dead3", 2))
	f.group("g", 2, map[string]any{"staleGracePeriod": "20s"})
	f.replicas("g", 2, stack.Queue("team"), stack.Gang("g"), stack.Whole(2), givenUpAfterASecond)
	f.eventuallyRun(20*time.Second, map[string]int{"g-": 2})
	f.eventuallyPhase(30*time.Second, "g", v1alpha1.PodGroupRunning)
	before, seen := f.uids("g-"), f.evictions()
	var lost types.UID
	for lost = range before {
		break
	}
	dead := f.nodeOf(lost)

	f.must(f.SetNodeReady(f.ctx, dead, false))
	f.eventually(40*time.Second, func() string {
		alive := 0
		for uid := range f.uids("g-") {
			if node := f.nodeOf(uid); node != "" && node != dead {
				alive++
			}
		}
		if alive != 2 {
			return fmt.Sprintf("%d of 2 members run on nodes that live; %s", alive, f.firstReason("g-"))
		}
		return ""
	})
	f.eventuallyPhase(30*time.Second, "g", v1alpha1.PodGroupRunning)
	f.must(f.Client.CoreV1().Nodes().Delete(f.ctx, dead, metav1.DeleteOptions{}))
	f.eventually(2*time.Minute, func() string {
		if n := len(f.pods()); n != 2 {
			return fmt.Sprintf("%d pods exist, want the 2 that run once the lost one is collected", n)
		}
		return ""
	})
	f.cycles(10)
	if n := f.stayed(before); n != 1 {
		t.Errorf("%d members of before are there, want the one whose node lives", n)
	}
	f.wantEvictedBy(seen, map[string]string{before[lost]: "DeletionByPodGC"})
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupRunning)
	f.consistent()
}

// TestDeadNodeEndsAGangThatNobodyMends: nothing replaces the member, and that its
// pod is terminating for ever does not keep the rest of the gang.
func TestDeadNodeEndsAGangThatNobodyMends(t *testing.T) {
	f := use(t, stack.A100("end1", 2), stack.A100("end2", 2))
	f.group("g", 2, map[string]any{"staleGracePeriod": "3s"})
	for i := range 2 {
		node := stack.OnNode(corev1.LabelHostname, fmt.Sprintf("end%d", i+1))
		f.create(stack.Pod(fmt.Sprintf("g-%d", i), stack.Queue("team"), stack.Gang("g"), stack.Whole(2), node, givenUpAfterASecond))
	}
	f.eventuallyPhase(30*time.Second, "g", v1alpha1.PodGroupRunning)
	seen := f.evictions()
	f.must(f.SetNodeReady(f.ctx, "end2", false))
	f.eventually(60*time.Second, func() string {
		if n := len(seen.all()); n != 2 {
			return fmt.Sprintf("%d of 2 pods are asked to leave; the gang is %s: %s", n, f.groupOf("g").Status.Phase, f.groupOf("g").Status.Message)
		}
		return ""
	})
	f.cycles(10)
	f.wantEvictedBy(seen, map[string]string{"g-1": "DeletionByTaintManager", "g-0": "StaleGang"})
}

// wantEvictedBy checks who was evicted and why.
func (f fixture) wantEvictedBy(seen *observer, want map[string]string) {
	f.t.Helper()
	for _, e := range seen.all() {
		if !strings.HasPrefix(e.reason, want[e.pod]) || want[e.pod] == "" {
			f.t.Errorf("%s was evicted by %s: %s; want %q", e.pod, e.reason, e.message, want[e.pod])
		}
	}
	if n := len(seen.all()); n != len(want) {
		f.t.Errorf("%d pods were evicted, want %d: %v", n, len(want), want)
	}
}
