// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// ownerCRDs are kinds without a controller: the test plays its part.
const ownerCRDs = "../../queuecontroller/grouping/testdata/crds/"

func (f fixture) define(file, crd string) {
	f.t.Helper()
	_, err := f.Kubectl(f.ctx, "apply", "--server-side", "-f", ownerCRDs+file)
	f.must(err)
	_, err = f.Kubectl(f.ctx, "wait", "--for=condition=Established", "--timeout=30s", "crd/"+crd)
	f.must(err)
}

// owner creates an object that owns pods, and deletes it before the pods go.
func (f fixture) owner(resource schema.GroupVersionResource, kind, name string, by *metav1.OwnerReference, spec map[string]any) metav1.OwnerReference {
	f.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	u.SetName(name)
	if by != nil {
		u.SetOwnerReferences([]metav1.OwnerReference{*by})
	}
	api := f.Dynamic.Resource(resource).Namespace(metav1.NamespaceDefault)
	made, err := api.Create(f.ctx, u, metav1.CreateOptions{})
	f.must(err)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		f.report(api.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	})
	return metav1.OwnerReference{
		APIVersion: resource.GroupVersion().String(), Kind: kind, Name: name, UID: made.GetUID(), Controller: new(true),
	}
}

func ownedBy(ref metav1.OwnerReference) stack.PodOption {
	return func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{ref} }
}

func label(key, value string) stack.PodOption {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

// stays checks that no pod of the prefix is bound for a while.
func (f fixture) stays(span time.Duration, prefix, why string) {
	f.t.Helper()
	f.always(span, func() string {
		if n := f.boundCount(prefix); n != 0 {
			return fmt.Sprintf("%d pods %s* are bound while %s", n, prefix, why)
		}
		return ""
	})
}

func TestJobWithMinMemberStartsWhole(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.create(stack.Pod("blocker", stack.Queue("team"), stack.Whole(1)))
	f.eventuallyBound(20*time.Second, "blocker", 1)
	template := stack.Pod("", stack.Queue("team"), stack.Whole(1))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "sweep", Annotations: map[string]string{v1alpha1.AnnotationMinMember: "8"}},
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(8)), Completions: new(int32(8)),
			Template: corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec},
		},
	}
	job.Spec.Template.Name, job.Spec.Template.Namespace = "", ""
	jobs := f.Client.BatchV1().Jobs(metav1.NamespaceDefault)
	_, err := jobs.Create(f.ctx, job, metav1.CreateOptions{})
	f.must(err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		f.report(jobs.Delete(ctx, "sweep", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	})
	f.eventually(20*time.Second, func() string {
		if n := len(f.pods()); n != 9 {
			return fmt.Sprintf("%d pods exist, want the blocker and 8 of the Job", n)
		}
		return ""
	})
	f.stays(6*time.Second, "sweep-", "there is room for 7 of 8")
	f.must(f.Kill(stack.ControlPlane))
	f.must(f.Restart(f.ctx, stack.ControlPlane))
	f.stays(4*time.Second, "sweep-", "there is room for 7 of 8 after a restart")

	annotate := func(least string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationMinMember, least)
		_, err := jobs.Patch(f.ctx, "sweep", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		f.must(err)
	}
	annotate("nine")
	f.eventually(10*time.Second, func() string {
		for name, p := range f.pods() {
			if strings.HasPrefix(name, "sweep-") && !strings.Contains(reason(p), `"nine"`) {
				return fmt.Sprintf("pod %s waits with %q", name, reason(p))
			}
		}
		return ""
	})
	annotate("7")
	f.eventuallyBound(20*time.Second, "sweep-", 7)
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "blocker", metav1.DeleteOptions{}))
	f.eventuallyBound(20*time.Second, "sweep-", 8)
	f.consistent()
}

func TestJobSetIsAGangOfItsReplicatedJobs(t *testing.T) {
	f := use(t, stack.A100("n0", 4), stack.A100("n1", 4))
	f.define("jobset.x-k8s.io.yaml", "jobsets.jobset.x-k8s.io")
	set := f.owner(schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}, "JobSet", "train", nil,
		map[string]any{"replicatedJobs": []any{
			map[string]any{"name": "driver", "template": map[string]any{"spec": map[string]any{}}},
			map[string]any{"name": "workers", "replicas": int64(2), "template": map[string]any{"spec": map[string]any{"parallelism": int64(3)}}},
		}})
	member := func(name, replicated, index string) *corev1.Pod {
		return stack.Pod(name, stack.Queue("team"), stack.Whole(1), ownedBy(set),
			label("jobset.sigs.k8s.io/replicatedjob-name", replicated), label("jobset.sigs.k8s.io/job-index", index))
	}
	var pods []*corev1.Pod
	for i := range 6 {
		pods = append(pods, member(fmt.Sprintf("train-w%d", i), "workers", strconv.Itoa(i/3)))
	}
	f.create(pods...)
	f.eventuallyWaits(15*time.Second, "train-w0", "gang default/jobset/train@", "1 pod is missing")
	f.stays(6*time.Second, "train-", "the driver does not exist")
	f.create(member("train-driver", "driver", "0"))
	f.eventuallyBound(20*time.Second, "train-", 7)
	f.consistent()
}

func TestLeaderWorkerSetReplicaIsAGang(t *testing.T) {
	f := use(t, stack.A100("n0", 4))
	f.define("leaderworkerset.x-k8s.io.yaml", "leaderworkersets.leaderworkerset.x-k8s.io")
	lws := f.owner(schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}, "LeaderWorkerSet", "serve", nil,
		map[string]any{"leaderWorkerTemplate": map[string]any{"size": int64(4)}})
	f.statefulSet("serve", &lws, 1, "0")
	var leader corev1.Pod
	f.eventually(15*time.Second, func() string {
		var exists bool
		if leader, exists = f.pods()["serve-0"]; !exists {
			return "the leader does not exist"
		}
		return ""
	})
	// A real LeaderWorkerSet gives each worker a rank; without segments all that
	// counts is that none has the leader's.
	workers := f.statefulSet("serve-0", &metav1.OwnerReference{
		APIVersion: "v1", Kind: "Pod", Name: leader.Name, UID: leader.UID, Controller: new(true),
	}, 2, "1")
	f.stays(8*time.Second, "serve-", "a worker does not exist")
	_, err := f.Client.AppsV1().StatefulSets(metav1.NamespaceDefault).Patch(f.ctx, workers.Name, types.MergePatchType,
		[]byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{})
	f.must(err)
	f.eventuallyBound(20*time.Second, "serve-", 4)
	f.consistent()
}

// statefulSet makes pods of one GPU in queue team, as a LeaderWorkerSet does.
func (f fixture) statefulSet(name string, by *metav1.OwnerReference, replicas int, rank string) metav1.OwnerReference {
	f.t.Helper()
	labels := map[string]any{
		"of": name, v1alpha1.LabelQueue: "team",
		"leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": rank,
	}
	return f.owner(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}, "StatefulSet", name, by, map[string]any{
		"replicas": int64(replicas), "serviceName": name, "podManagementPolicy": "Parallel",
		"selector": map[string]any{"matchLabels": map[string]any{"of": name}},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
			"terminationGracePeriodSeconds": int64(1),
			"containers": []any{map[string]any{
				"name": "main", "image": "busybox", "resources": map[string]any{"limits": map[string]any{v1alpha1.ResourceWholeGPU: "1"}},
			}},
		}},
	})
}

func TestOwnerThatCannotBeIsToldInOneSentence(t *testing.T) {
	f := use(t, stack.A100("n0", 4))
	f.define("ray.io.yaml", "rayclusters.ray.io")
	cluster := f.owner(schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}, "RayCluster", "ray", nil,
		map[string]any{"workerGroupSpecs": []any{map[string]any{"groupName": "gpu", "replicas": int64(1), "minReplicas": int64(2)}}})
	f.create(stack.Pod("ray-worker", stack.Queue("team"), stack.Whole(1), ownedBy(cluster), label("ray.io/group", "gpu")))
	f.eventuallyWaits(15*time.Second, "ray-worker", "RayCluster default/ray: spec.workerGroupSpecs[0].minReplicas is 2, must be at most replicas, which is 1")
}
