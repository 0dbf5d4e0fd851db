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

// shownGang is the name of the PodGroup with the prefix, "" while there is none.
func (f fixture) shownGang(prefix string) string {
	f.t.Helper()
	list, err := f.Dynamic.Resource(v1alpha1.PodGroupResource).Namespace(metav1.NamespaceDefault).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	for _, u := range list.Items {
		if strings.HasPrefix(u.GetName(), prefix) {
			return u.GetName()
		}
	}
	return ""
}

// TestDerivedGangIsShown: of a ReplicaSet whose pods are a gang there is a
// PodGroup that says how it is. The ReplicaSet owns it and decides what is in it;
// the policy that its pods name is followed; with the ReplicaSet the PodGroup goes.
func TestDerivedGangIsShown(t *testing.T) {
	f := use(t, stack.A100("shown0", 8))
	f.replicas("train", 3, stack.Queue("team"), stack.Whole(1), stack.Annotate(v1alpha1.AnnotationMinMember, "3"),
		stack.Annotate(v1alpha1.AnnotationOnMemberLost, "ReleaseAll"), stack.Annotate(v1alpha1.AnnotationStaleGracePeriod, "90s"))
	name := ""
	f.eventually(20*time.Second, func() string {
		if name = f.shownGang("replicaset-train-"); name == "" {
			return "there is no PodGroup of the gang"
		}
		return ""
	})
	f.eventuallyPhase(30*time.Second, name, v1alpha1.PodGroupRunning)
	g := f.groupOf(name)
	if len(g.OwnerReferences) != 1 || g.OwnerReferences[0].Kind != "ReplicaSet" || g.OwnerReferences[0].Name != "train" {
		t.Errorf("PodGroup %s is owned by %v, want the ReplicaSet train", name, g.OwnerReferences)
	}
	if g.Spec.MinMember == nil || *g.Spec.MinMember != 3 || g.Spec.OnMemberLost != v1alpha1.OnMemberLostReleaseAll ||
		g.Spec.StaleGracePeriod == nil || g.Spec.StaleGracePeriod.Duration != 90*time.Second || g.Status.Queue != "team" || g.Status.Running != 3 {
		t.Errorf("the PodGroup says %+v, %+v", g.Spec, g.Status)
	}

	f.edit(name, `{"minMember":1,"onMemberLost":"Replace"}`)
	f.eventually(10*time.Second, func() string {
		if spec := f.groupOf(name).Spec; *spec.MinMember != 3 || spec.OnMemberLost != v1alpha1.OnMemberLostReleaseAll {
			return "what was written into it is not put back"
		}
		return ""
	})

	before, seen := f.uids("train-"), f.evictions()
	f.loseOne("train-")
	f.eventually(60*time.Second, func() string {
		if n := f.stayed(before); n != 0 || f.running("train-") != 3 {
			return fmt.Sprintf("%d of the old members are there and %d run, want 0 and 3; %s", n, f.running("train-"), f.firstReason("train-"))
		}
		return ""
	})
	f.cycles(10)
	seen.want(map[string]int{"train": 2})
	f.eventuallyPhase(10*time.Second, name, v1alpha1.PodGroupRunning)

	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, v1alpha1.AnnotationMinMember)
	sets := f.Client.AppsV1().ReplicaSets(metav1.NamespaceDefault)
	_, err := sets.Patch(f.ctx, "train", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	f.must(err)
	f.eventually(10*time.Second, func() string {
		if g := f.groupOf(name); *g.Spec.MinMember != 2 || g.Status.MinMember != 2 {
			return "the new minimum is not shown"
		}
		return ""
	})
	f.must(sets.Delete(f.ctx, "train", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	f.eventually(30*time.Second, func() string {
		if name := f.shownGang("replicaset-train-"); name != "" {
			return "PodGroup " + name + " is still there"
		}
		return ""
	})
	f.consistent()
}

// TestSinglePodsHaveNoPodGroup: a ReplicaSet without a minimum is pods that start
// one by one.
func TestSinglePodsHaveNoPodGroup(t *testing.T) {
	f := use(t, stack.A100("n0", 8))
	f.replicas("sweep", 3, stack.Queue("team"), stack.Whole(1))
	f.eventuallyBound(20*time.Second, "sweep-", 3)
	f.always(3*time.Second, func() string {
		if name := f.shownGang("replicaset-sweep-"); name != "" {
			return "there is PodGroup " + name
		}
		return ""
	})
}
