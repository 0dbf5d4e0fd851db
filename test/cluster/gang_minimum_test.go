// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// TestR53MinimumRaisedAndLowered: what runs stays, whatever the minimum is raised
// to; the new members wait together and hold nothing; the status is steady; with
// the old minimum the gang takes what there is.
func TestR53MinimumRaisedAndLowered(t *testing.T) {
	f := use(t, stack.A100("raised0", 4))
	f.group("g", 2, map[string]any{"staleGracePeriod": "1s"})
	pods := members("g", "team", 6)
	f.create(pods[:2]...)
	f.eventuallyPhase(20*time.Second, "g", v1alpha1.PodGroupRunning)
	seen := f.evictions()

	f.edit("g", `{"minMember":6}`)
	f.create(pods[2:]...)
	f.eventuallyWaits(15*time.Second, "g-5", "gang of 4", "room for 2")
	f.eventually(10*time.Second, func() string {
		s := f.groupOf("g").Status
		if s.Phase != v1alpha1.PodGroupRunning || !strings.HasPrefix(s.Message, "2 of the 6 pods that must run together are there; the minimum was raised") {
			return fmt.Sprintf("the gang is %s: %s", s.Phase, s.Message)
		}
		return ""
	})
	steady := f.groupOf("g").ResourceVersion
	f.always(8*time.Second, func() string {
		if n := f.running("g-"); n != 2 {
			return fmt.Sprintf("MUST: the two running pods keep running, nobody else starts; %d run", n)
		}
		if g := f.groupOf("g"); g.ResourceVersion != steady {
			return fmt.Sprintf("NEVER: more than one status change for an edit; now %s: %s", g.Status.Phase, g.Status.Message)
		}
		return f.leaves(seen)
	})

	f.edit("g", `{"minMember":2}`)
	f.eventuallyRunning(20*time.Second, "g-", 4)
	f.eventually(10*time.Second, func() string {
		if s := f.groupOf("g").Status; s.Phase != v1alpha1.PodGroupRunning || s.Running != 4 || s.Members != 6 {
			return fmt.Sprintf("the gang is %s, %d of %d run, want Running, 4 of 6", s.Phase, s.Running, s.Members)
		}
		return ""
	})
	f.edit("g", `{"minMember":0}`)
	f.cycles(10)
	if n := f.running("g-"); n != 4 {
		t.Errorf("with no minimum %d run, want 4", n)
	}
	seen.want(map[string]int{})
	f.consistent()
}

// TestMinimumRaisedWithRoom: the members that are asked for start, together.
func TestMinimumRaisedWithRoom(t *testing.T) {
	f := use(t, stack.A100("raised1", 8))
	f.gang("g", "team", 2)
	pods := members("g", "team", 5)
	f.create(pods[:2]...)
	f.eventuallyPhase(20*time.Second, "g", v1alpha1.PodGroupRunning)
	seen := f.evictions()
	f.edit("g", `{"minMember":5}`)
	f.create(pods[2:4]...)
	f.eventuallyWaits(15*time.Second, "g-3", "1 pod is missing")
	f.always(2*time.Second, func() string {
		if n := f.boundCount("g-"); n != 2 {
			return fmt.Sprintf("%d are bound while one of 5 is missing, want the 2 of before", n)
		}
		return ""
	})
	f.create(pods[4])
	f.eventuallyRunning(20*time.Second, "g-", 5)
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupRunning)
	seen.want(map[string]int{})
	f.consistent()
}

// TestElasticGangGrowsAndShrinks: extras start one by one as room comes, they are
// the first to go when another queue takes its quota back, and as many as it
// needs; what must run together goes together, when its time comes.
func TestElasticGangGrowsAndShrinks(t *testing.T) {
	f := use(t, stack.A100("elastic0", 4))
	f.queue("owner", map[string]any{"quota": gpus(4)})
	f.gang("g", "team", 2)
	f.replicas("g", 2, stack.Queue("team"), stack.Gang("g"), stack.Whole(1))
	f.eventuallyRun(20*time.Second, map[string]int{"g-": 2})
	core := f.uids("g-")
	f.scale("g", 6)
	f.eventually(20*time.Second, func() string {
		if n := f.running("g-"); n != 4 {
			return fmt.Sprintf("%d of the 4 that fit run; %s", n, f.firstReason("g-"))
		}
		return ""
	})
	if n := f.stayed(core); n != 2 {
		t.Errorf("%d of the 2 first members are there after the gang has grown", n)
	}
	seen := f.evictions()

	f.create(stack.Pod("claim", stack.Queue("owner"), stack.Whole(2)))
	f.eventuallyRunning(20*time.Second, "claim", 1)
	f.cycles(10)
	seen.want(map[string]int{"g": 2})
	if n := f.running("g-"); n != 2 {
		t.Errorf("%d of the gang run beside the claim, want its minimum of 2", n)
	}
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupRunning)

	f.create(stack.Pod("more", stack.Queue("owner"), stack.Whole(1)))
	f.eventuallyRunning(20*time.Second, "more", 1)
	f.cycles(10)
	seen.want(map[string]int{"g": 4})
	if n := f.running("g-"); n != 0 {
		t.Errorf("%d of the gang run where its minimum does not fit", n)
	}
	f.eventuallyPhase(10*time.Second, "g", v1alpha1.PodGroupWaiting)
	f.consistent()
}

// scale changes how many pods a ReplicaSet keeps.
func (f fixture) scale(set string, n int) {
	f.t.Helper()
	_, err := f.Client.AppsV1().ReplicaSets(metav1.NamespaceDefault).Patch(f.ctx, set, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
	f.must(err)
}
