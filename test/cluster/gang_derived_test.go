// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// disruptionsAreNoFailures lets a Job make new pods for evicted ones at once.
func disruptionsAreNoFailures() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
}

// job makes a Job of n pods with annotations that make a gang of them.
func (f fixture) job(name string, n int, annotations map[string]string) {
	f.t.Helper()
	template := stack.Pod("", stack.Queue("team"), stack.Whole(1))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Namespace = ""
	jobs := f.Client.BatchV1().Jobs(metav1.NamespaceDefault)
	_, err := jobs.Create(f.ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(n)), Completions: new(int32(n)), PodFailurePolicy: disruptionsAreNoFailures(),
			Template: corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error {
		return jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	})
}

// shownGang is the only PodGroup there is, "" while there is none.
func (f fixture) shownGang() string {
	f.t.Helper()
	list, err := f.Dynamic.Resource(v1alpha1.PodGroupResource).Namespace(metav1.NamespaceDefault).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	if len(list.Items) > 1 {
		f.t.Fatalf("%d PodGroups, want one", len(list.Items))
	}
	for _, u := range list.Items {
		return u.GetName()
	}
	return ""
}

// TestDerivedGangIsShown: of a Job whose pods are a gang there is a PodGroup that
// says how it is. The Job owns it and decides what is in it; the policy that the
// Job names is followed; with the Job's pods the PodGroup goes.
func TestDerivedGangIsShown(t *testing.T) {
	f := use(t, stack.A100("n0", 8))
	f.job("train", 3, map[string]string{
		v1alpha1.AnnotationMinMember: "3", v1alpha1.AnnotationOnMemberLost: "ReleaseAll", v1alpha1.AnnotationStaleGracePeriod: "90s",
	})
	name := ""
	f.eventually(20*time.Second, func() string {
		if name = f.shownGang(); name == "" {
			return "there is no PodGroup of the Job's gang"
		}
		return ""
	})
	f.eventuallyPhase(30*time.Second, name, v1alpha1.PodGroupRunning)
	g := f.groupOf(name)
	if !strings.HasPrefix(name, "job-train-") || len(g.OwnerReferences) != 1 || g.OwnerReferences[0].Kind != "Job" || g.OwnerReferences[0].Name != "train" {
		t.Errorf("PodGroup %s is owned by %v, want the Job train", name, g.OwnerReferences)
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
	lost := f.loseOne("train-")
	f.eventually(60*time.Second, func() string {
		if n := f.stayed(before); n != 0 || f.running("train-") != 3 {
			return fmt.Sprintf("%d of the old members are there and %d run, want 0 and 3; %s", n, f.running("train-"), f.firstReason("train-"))
		}
		return ""
	})
	want := map[string]int{}
	for _, pod := range before {
		if pod != lost {
			want[pod] = 1
		}
	}
	f.cycles(10)
	seen.want(want)
	f.eventuallyPhase(10*time.Second, name, v1alpha1.PodGroupRunning)

	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"2"}}}`, v1alpha1.AnnotationMinMember)
	jobs := f.Client.BatchV1().Jobs(metav1.NamespaceDefault)
	_, err := jobs.Patch(f.ctx, "train", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	f.must(err)
	f.eventually(10*time.Second, func() string {
		if g := f.groupOf(name); *g.Spec.MinMember != 2 || g.Status.MinMember != 2 {
			return "the Job's new minimum is not shown"
		}
		return ""
	})
	f.must(jobs.Delete(f.ctx, "train", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	f.eventually(30*time.Second, func() string {
		if name := f.shownGang(); name != "" {
			return "PodGroup " + name + " is still there"
		}
		return ""
	})
	f.consistent()
}

// TestSinglePodsHaveNoPodGroup: a Job without a minimum is pods that start one by
// one.
func TestSinglePodsHaveNoPodGroup(t *testing.T) {
	f := use(t, stack.A100("n0", 8))
	f.job("sweep", 3, nil)
	f.eventuallyBound(20*time.Second, "sweep-", 3)
	f.always(3*time.Second, func() string {
		if name := f.shownGang(); name != "" {
			return "there is PodGroup " + name
		}
		return ""
	})
}
