// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/test/stack"
)

// nativeGroups are what the API server needs to serve the PodGroups of Kubernetes
// (KEP-4671), which are off by default. kube-scheduler stays as it is.
var nativeGroups = []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"}

// TestNativePodGroup: pods that name a PodGroup of Kubernetes start as its policy
// says, with nothing of ours but the queue.
func TestNativePodGroup(t *testing.T) {
	f := use(t, stack.A100("n0", 2))
	groups := f.Client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault)
	f.afterwards(func(ctx context.Context) error {
		return groups.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	for name, policy := range map[string]schedulingv1beta1.PodGroupSchedulingPolicy{
		"whole":  {Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}},
		"single": {Basic: &schedulingv1beta1.BasicSchedulingPolicy{}},
	} {
		_, err := groups.Create(f.ctx, &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: policy},
		}, metav1.CreateOptions{})
		f.must(err)
	}
	member := func(group string, i int) *corev1.Pod {
		p := stack.Pod(fmt.Sprintf("%s-%d", group, i), stack.Queue("team"), stack.Whole(1))
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		return p
	}
	f.create(member("whole", 0), member("whole", 1), member("whole", 2))
	f.eventuallyWaits(15*time.Second, "whole-0", "gang of 3: room for 2")
	f.stays(2*time.Second, "whole", "a gang of three started on two GPUs")
	f.must(f.AddGPUNodes(f.ctx, stack.A100("n1", 2)))
	f.eventuallyBound(20*time.Second, "whole", 3)
	f.create(member("single", 0), member("single", 1))
	f.eventuallyBound(15*time.Second, "single", 1)
	f.consistent()
}
