// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

// group makes a PodGroup with more than a minimum.
func (f fixture) group(name string, minimum int, spec map[string]any) {
	f.t.Helper()
	spec = maps.Clone(spec)
	spec["queue"], spec["minMember"] = "team", int64(minimum)
	f.must(f.CreatePodGroup(f.ctx, name, spec))
}

// groupOf reads a PodGroup.
func (f fixture) groupOf(name string) (g v1alpha1.PodGroup) {
	f.t.Helper()
	u, err := f.Dynamic.Resource(v1alpha1.PodGroupResource).Namespace(metav1.NamespaceDefault).Get(f.ctx, name, metav1.GetOptions{})
	f.must(err)
	f.must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &g))
	return g
}

// eventuallyPhase waits until a PodGroup shows the phase.
func (f fixture) eventuallyPhase(limit time.Duration, name string, want v1alpha1.PodGroupPhase) {
	f.t.Helper()
	f.eventually(limit, func() string {
		if g := f.groupOf(name); g.Status.Phase != want {
			var pods []string
			for pod, p := range f.pods() {
				pods = append(pods, pod+" "+string(p.Status.Phase))
			}
			return fmt.Sprintf("PodGroup %s is %s, want %s: %s; pods %v", name, g.Status.Phase, want, g.Status.Message, pods)
		}
		return ""
	})
}

// edit changes fields of a PodGroup's spec.
func (f fixture) edit(group, spec string) {
	f.t.Helper()
	_, err := f.Dynamic.Resource(v1alpha1.PodGroupResource).Namespace(metav1.NamespaceDefault).
		Patch(f.ctx, group, types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
	f.must(err)
}

// uids are those of the pods with the prefix that are not leaving.
func (f fixture) uids(prefix string) map[types.UID]string {
	f.t.Helper()
	out := map[types.UID]string{}
	for name, p := range f.pods() {
		if strings.HasPrefix(name, prefix) && p.DeletionTimestamp == nil {
			out[p.UID] = name
		}
	}
	return out
}

// loseOne deletes a pod of the prefix, as an administrator who drains a node by
// hand does, and returns its name.
func (f fixture) loseOne(prefix string) string {
	f.t.Helper()
	for _, name := range f.uids(prefix) {
		f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, name, metav1.DeleteOptions{}))
		return name
	}
	f.t.Fatalf("there is no pod %s*", prefix)
	return ""
}

// stayed counts who of before is still there.
func (f fixture) stayed(before map[types.UID]string) (n int) {
	f.t.Helper()
	for _, p := range f.pods() {
		if _, was := before[p.UID]; was && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// TestLostMemberIsReplaced: by default the others stay, and the replacement gets
// in at once, past a gang that waits for the same room.
func TestLostMemberIsReplaced(t *testing.T) {
	f := use(t, stack.A100("replace0", 4))
	f.gang("g", "team", 3)
	f.replicas("g", 3, stack.Queue("team"), stack.Gang("g"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"g-": 3})
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupRunning)
	f.gang("next", "team", 2)
	f.create(members("next", "team", 2)...)
	f.eventuallyWaits(10*time.Second, "next-0", "gang of 2")
	before, seen := f.uids("g-"), f.evictions()

	f.loseOne("g-")
	f.eventually(20*time.Second, func() string {
		if now := f.uids("g-"); len(now) != 3 || f.running("g-") != 3 {
			return fmt.Sprintf("%d of 3 members run; %s", f.running("g-"), f.firstReason("g-"))
		}
		return ""
	})
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupRunning)
	f.cycles(10)
	if n := f.stayed(before); n != 2 {
		t.Errorf("%d members of before are there, want the 2 that were not lost", n)
	}
	if n := f.boundCount("next-"); n != 0 {
		t.Errorf("%d members of the gang that waits are bound", n)
	}
	seen.want(map[string]int{})
	f.consistent()
}

// TestLostMemberReleasesAll: by policy the others are given up at once, and the
// gang starts whole again: no new member is bound before the last old one leaves.
func TestLostMemberReleasesAll(t *testing.T) {
	f := use(t, stack.A100("release0", 8))
	f.group("g", 3, map[string]any{"onMemberLost": "ReleaseAll"})
	f.replicas("g", 3, stack.Queue("team"), stack.Gang("g"), stack.Whole(1), goneAfter(3*time.Second))
	f.eventuallyRun(20*time.Second, map[string]int{"g-": 3})
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupRunning)
	before, seen := f.uids("g-"), f.evictions()

	f.loseOne("g-")
	lost := time.Now()
	f.eventually(20*time.Second, func() string {
		left := f.stayed(before)
		for name, p := range f.pods() {
			if _, old := before[p.UID]; !old && p.Spec.NodeName != "" && left > 0 {
				t.Errorf("%s is bound while %d members of before are not asked to leave", name, left)
			}
		}
		if left > 0 {
			return fmt.Sprintf("%d of the others are not asked to leave", left)
		}
		return ""
	})
	f.eventuallyRun(30*time.Second, map[string]int{"g-": 3})
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupRunning)
	f.cycles(10)
	seen.want(map[string]int{"g": 2})
	for _, e := range seen.all() {
		if e.at.Sub(lost) > 2*time.Second {
			t.Errorf("%s was asked to leave %s after the loss, want at once", e.pod, e.at.Sub(lost))
		}
		if e.reason != "StaleGang" || !strings.Contains(e.message, "gang default/g: it fell below its minimum and gives up what is left of it, 2 pods") {
			t.Errorf("%s was told %s: %s", e.pod, e.reason, e.message)
		}
	}
	f.consistent()
}

// TestFailedMemberIsWaitedForUntilTheGraceIsOver: nobody replaces it; the others
// stay for the grace and no longer, and the status says which of both it is.
func TestFailedMemberIsWaitedForUntilTheGraceIsOver(t *testing.T) {
	f := use(t, stack.A100("failed0", 4))
	f.group("g", 3, map[string]any{"staleGracePeriod": "5s"})
	pods := members("g", "team", 3)
	pods[2].Annotations[bed.FailAfter] = "2s"
	seen := f.evictions()
	f.create(pods...)
	f.eventuallyPhase(20*time.Second, "g", v1alpha1.PodGroupDegraded)
	degraded := meta.FindStatusCondition(f.groupOf("g").Status.Conditions, v1alpha1.ConditionDegraded)
	if degraded.Status != metav1.ConditionTrue || degraded.Reason != v1alpha1.ReasonMembersLost {
		t.Errorf("condition Degraded is %+v", degraded)
	}
	f.eventually(20*time.Second, func() string {
		if n := len(seen.all()); n != 2 {
			return fmt.Sprintf("%d of 2 others are evicted; the gang is %s", n, f.groupOf("g").Status.Phase)
		}
		return ""
	})
	for _, e := range seen.all() {
		if after := e.at.Sub(degraded.LastTransitionTime.Time); after < 4*time.Second || after > 9*time.Second {
			t.Errorf("%s was evicted %s after the loss, want 5 s", e.pod, after)
		}
	}
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupFinished)
	f.cycles(10)
	seen.want(map[string]int{"g-0": 1, "g-1": 1})
	f.consistent()
}

// TestFinishedMembersAreNotMissing guards report R47 and its second twin: one
// member after another finishes, the pods of those that did are cleaned up, the
// control plane is killed in between, and nobody is evicted.
func TestFinishedMembersAreNotMissing(t *testing.T) {
	f := use(t, stack.A100("finished0", 4))
	f.group("g", 4, map[string]any{"staleGracePeriod": "1s"})
	pods := members("g", "team", 4)
	for i, after := range []string{"1s", "2s"} {
		pods[i].Annotations[bed.SucceedAfter] = after
	}
	seen := f.evictions()
	f.create(pods...)
	f.eventuallyBound(20*time.Second, "g-", 4)
	for i := range 2 {
		name := fmt.Sprintf("g-%d", i)
		f.eventually(20*time.Second, func() string {
			if phase := f.pods()[name].Status.Phase; phase != corev1.PodSucceeded {
				return fmt.Sprintf("%s is %s", name, phase)
			}
			return ""
		})
		f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}
	f.eventually(10*time.Second, func() string {
		if s := f.groupOf("g").Status; s.Succeeded != 2 || s.Running != 2 || s.Phase != v1alpha1.PodGroupRunning {
			return fmt.Sprintf("the gang is %s, %d run and %d finished, want Running, 2 and 2: %s", s.Phase, s.Running, s.Succeeded, s.Message)
		}
		return ""
	})
	f.always(3*time.Second, func() string { return f.leaves(seen) })
	f.must(f.Kill(stack.ControlPlane))
	f.must(f.Restart(f.ctx, stack.ControlPlane))
	f.cycles(10)
	f.always(4*time.Second, func() string { return f.leaves(seen) })
	if s := f.groupOf("g").Status; s.Succeeded != 2 || s.Phase != v1alpha1.PodGroupRunning {
		t.Errorf("after the restart the gang is %s with %d finished members, want Running and 2: %s", s.Phase, s.Succeeded, s.Message)
	}
	seen.want(map[string]int{})
	f.consistent()
}

// leaves says who was evicted against expectation.
func (f fixture) leaves(seen *observer) string {
	if gone := seen.all(); len(gone) > 0 {
		return fmt.Sprintf("%s was evicted: %s", gone[0].pod, gone[0].message)
	}
	return ""
}
