// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// deployment makes a Deployment of one GPU a pod whose rolling update adds one
// pod and misses none.
func (f fixture) deployment(name string, replicas int32, options ...stack.PodOption) {
	f.t.Helper()
	p := stack.Pod("", append([]stack.PodOption{stack.Queue("team"), stack.Whole(1), label("set", name)}, options...)...)
	p.Namespace = ""
	deployments := f.Client.AppsV1().Deployments(metav1.NamespaceDefault)
	_, err := deployments.Create(f.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationMinMember: fmt.Sprint(replicas)}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"set": name}},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(0))}},
			Template: corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error {
		return deployments.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	})
}

// TestR50RollingUpdate: the new generation of a gang starts beside the old one.
func TestR50RollingUpdate(t *testing.T) {
	f := use(t, stack.A100("n1", 4))
	f.gang("d", "team", 2)
	f.deployment("d", 2, stack.Gang("d"))
	running := func() (old, updated int) {
		for name, p := range f.pods() {
			switch {
			case !strings.HasPrefix(name, "d-") || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil:
			case p.Labels["generation"] == "two":
				updated++
			default:
				old++
			}
		}
		return old, updated
	}
	f.eventually(20*time.Second, func() string {
		if old, _ := running(); old != 2 {
			return fmt.Sprintf("%d of 2 pods run before the update; %s", old, f.firstReason("d-"))
		}
		return ""
	})
	_, err := f.Client.AppsV1().Deployments(metav1.NamespaceDefault).Patch(f.ctx, "d", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"labels":{"generation":"two"}}}}}`), metav1.PatchOptions{})
	f.must(err)
	f.eventually(25*time.Second, func() string {
		old, updated := running()
		if old+updated < 2 {
			t.Fatalf("NEVER: %d old and %d new pods run, fewer than 2", old, updated)
		}
		if old > 0 || updated != 2 {
			return fmt.Sprintf("MUST: 2 pods of the new template run; %d old, %d new; %s", old, updated, f.firstReason("d-"))
		}
		return ""
	})
	f.consistent()
}

// TestR52ScaledToNothingAndBack: no left-over of an earlier pod keeps the next
// one waiting; a gang whose PodGroup is deleted by hand keeps running.
func TestR52ScaledToNothingAndBack(t *testing.T) {
	f := use(t, stack.A100("n1", 2))
	f.deployment("again", 1)
	scale := func(n int) {
		_, err := f.Client.AppsV1().Deployments(metav1.NamespaceDefault).Patch(f.ctx, "again", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{})
		f.must(err)
	}
	for round := range 6 {
		f.eventually(10*time.Second, func() string {
			if n := f.running("again-"); n != 1 {
				return fmt.Sprintf("MUST: round %d: the pod runs within 10 s; %d run; %s", round, n, f.firstReason("again-"))
			}
			return ""
		})
		scale(0)
		time.Sleep(time.Duration(round%3) * 300 * time.Millisecond)
		scale(1)
	}
	f.eventuallyRun(20*time.Second, map[string]int{"again-": 1})
}

// TestR52GroupDeletedByHand: running members are counted on, those that come
// are told why they wait, and the gang is whole again with its PodGroup.
func TestR52GroupDeletedByHand(t *testing.T) {
	f := use(t, stack.A100("n1", 3))
	f.gang("g", "team", 2)
	f.create(members("g", "team", 2)...)
	f.eventuallyBound(20*time.Second, "g-", 2)
	groups := f.Dynamic.Resource(v1alpha1.PodGroupResource).Namespace(metav1.NamespaceDefault)
	f.must(groups.Delete(f.ctx, "g", metav1.DeleteOptions{}))
	f.create(stack.Pod("g-late", stack.Queue("team"), stack.Gang("g"), stack.Whole(1)))
	f.eventuallyWaits(10*time.Second, "g-late", "PodGroup default/g", "does not exist")
	if n := f.running("g-"); n != 2 {
		t.Errorf("MUST: the two running members keep running; %d do", n)
	}
	f.gang("g", "team", 2)
	f.eventuallyBound(15*time.Second, "g-", 3)
	f.consistent()
}

// offer changes what the kubelet of a node says that its plugin serves.
func (f fixture) offer(node string, gpus int64) {
	f.t.Helper()
	patch := fmt.Appendf(nil, `{"status":{"allocatable":{%q:"%d",%q:"%d",%q:"%d"}}}`, v1alpha1.ResourceWholeGPU, gpus,
		v1alpha1.ResourceGPUSlice, 100*gpus, v1alpha1.ResourceGPUMemory, 40*gpus)
	_, err := f.Client.CoreV1().Nodes().Patch(f.ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	f.must(err)
}

// TestR82NodeWhosePluginIsGone: only GPU pods are kept off the node.
func TestR82NodeWhosePluginIsGone(t *testing.T) {
	f := use(t, stack.A100("n1", 8))
	var busy []*corev1.Pod
	for i := range 8 {
		busy = append(busy, stack.Pod(fmt.Sprintf("busy-%d", i), stack.Queue("team"), stack.Whole(1)))
	}
	f.create(busy...)
	f.eventuallyBound(20*time.Second, "busy-", 8)
	f.offer("n1", 0)
	f.create(stack.Pod("dp"), stack.Pod("c", stack.Queue("team")), stack.Pod("g", stack.Queue("team"), stack.Whole(1)))
	f.eventually(15*time.Second, func() string {
		if f.boundCount("dp") != 1 || f.boundCount("c") != 1 {
			return "MUST: DP and C run on n1; " + f.firstReason("dp") + "; " + f.firstReason("c")
		}
		return ""
	})
	f.offer("n1", 8)
	f.always(3*time.Second, func() string {
		if f.pods()["g"].Spec.NodeName != "" {
			return "NEVER: G is placed while 8 GPUs are in use"
		}
		if n := f.running("busy-"); n != 8 {
			return fmt.Sprintf("%d of 8 pods still run", n)
		}
		return ""
	})
	f.consistent()
}

// foreign binds a pod of nobody to a node, as another scheduler would.
func (f fixture) foreign(name, node string, options ...stack.PodOption) {
	f.t.Helper()
	p := stack.Pod(name, options...)
	p.Spec.SchedulerName = "somebody-else"
	f.create(p)
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Bind(f.ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

func cpu(cores string) stack.PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cores)
	}
}

// TestR91SomebodyElseTakesTheRoom: bind looks again at the node as it is now.
// The gang's last member comes late, so that the others are between filter and
// bind when the foreign pod appears.
func TestR91SomebodyElseTakesTheRoom(t *testing.T) {
	f := use(t, stack.A100("n1", 2))
	f.gang("g", "team", 2)
	pods := members("g", "team", 2, cpu("4"))
	straggler(pods[1])
	f.create(pods...)
	f.eventually(15*time.Second, func() string {
		for _, p := range f.dump().Pods {
			if p.State == "assumed" {
				return ""
			}
		}
		return "no member is in its bind call; " + f.firstReason("g-0")
	})
	f.foreign("taker", "n1", stack.Whole(2))
	f.create(stack.Pod("p", stack.Queue("team"), stack.Whole(1)))
	f.always(4*time.Second, func() string {
		if n := f.boundCount("g-") + f.boundCount("p"); n != 0 {
			return fmt.Sprintf("NEVER: %d pods are bound to n1, whose GPUs a foreign pod holds", n)
		}
		return ""
	})
	f.must(f.AddGPUNodes(f.ctx, stack.A100("n2", 1)))
	f.eventuallyBound(15*time.Second, "p", 1)
	taker := f.pods()["taker"]
	if taker.DeletionTimestamp != nil || f.pods()["p"].Spec.NodeName != "n2" {
		t.Errorf("MUST: P lands on n2 and the foreign pod stays; P is on %q", f.pods()["p"].Spec.NodeName)
	}
	for _, member := range pods { // whose bind is still under way, and counts
		f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, member.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	}
	f.eventually(10*time.Second, func() string {
		if team, others := f.allocated("team"), f.allocated(v1alpha1.DefaultQueue); team != "1" || others != "0" {
			return fmt.Sprintf("NEVER: the foreign pod is charged to a queue; team holds %s GPUs, want 1, the default queue %s, want 0", team, others)
		}
		return ""
	})
}

// allocated is what the queue's status says that it holds.
func (f fixture) allocated(queue string) (gpus string) {
	f.t.Helper()
	q, err := f.Dynamic.Resource(v1alpha1.QueueResource).Get(f.ctx, queue, metav1.GetOptions{})
	f.must(err)
	status, _ := q.Object["status"].(map[string]any)
	held, _ := status["allocated"].(map[string]any)
	if held["gpu"] == nil {
		return "0"
	}
	return fmt.Sprint(held["gpu"])
}

// TestR92NominatedPodThatNoLongerFits holds nothing.
func TestR92NominatedPodThatNoLongerFits(t *testing.T) {
	f := use(t, stack.A100("n1", 4))
	f.create(stack.Pod("p0", stack.Queue("team"), stack.Whole(2), goneAfter(10*time.Second)))
	f.eventuallyBound(15*time.Second, "p0", 1)
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "p0", metav1.DeleteOptions{}))
	f.create(stack.Pod("p1", stack.Queue("team"), stack.Whole(3), f.priority(50)))
	f.eventually(10*time.Second, func() string {
		for _, p := range f.dump().Pods {
			if p.Name == "p1" && p.State == "promised" {
				return ""
			}
		}
		return "p1 is not promised n1"
	})
	f.create(stack.Pod("p2", stack.Queue("team"), stack.Whole(2), f.priority(100)))
	f.eventuallyBound(10*time.Second, "p2", 1)
	f.create(stack.Pod("p3", stack.Queue("team"), stack.Whole(2), f.priority(10)))
	f.eventually(20*time.Second, func() string {
		if f.boundCount("p3") != 1 {
			return "NEVER: 2 GPUs idle while P3 waits; " + f.firstReason("p")
		}
		return ""
	})
	f.eventuallyWaits(10*time.Second, "p1", "3 GPUs asked")
}

// TestR94MissedDeleteEvent: a pod goes while nobody can tell the control plane.
func TestR94MissedDeleteEvent(t *testing.T) {
	f := use(t, stack.A100("n1", 8))
	t.Cleanup(f.Link.Restore)
	for i := range 4 {
		f.create(stack.Pod(fmt.Sprintf("p%d", i), stack.Queue("team"), stack.Whole(2)))
	}
	f.eventuallyBound(20*time.Second, "p", 4)
	assigned := func(pod string) []v1alpha1.ContainerAssignment {
		a, err := v1alpha1.DecodeAssignment(f.pods()[pod].Annotations[v1alpha1.AnnotationGPUAssignment])
		f.must(err)
		return a.Containers
	}
	freed := assigned("p1")
	f.Link.Cut()
	f.must(f.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(f.ctx, "p1", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	f.create(stack.Pod("successor", stack.Queue("team"), stack.Whole(2)))
	time.Sleep(2 * time.Second)
	f.Link.Restore()
	f.eventuallyBound(30*time.Second, "successor", 1)
	if got := assigned("successor"); !reflect.DeepEqual(got, freed) {
		t.Errorf("MUST: the successor gets the GPUs of the pod that is gone, %v; it got %v", freed, got)
	}
	f.held()
	f.consistent()
}

// TestR98KilledBetweenReserveAndBind: nothing is lost and nothing is given out
// twice, whenever the process ends; a promise that is never used is given back.
func TestR98KilledBetweenReserveAndBind(t *testing.T) {
	f := use(t, stack.A100("n1", 8), stack.A100("n2", 8))
	f.create(slices("h", 32, 50)...)
	for range 2 {
		f.must(f.Kill(stack.ControlPlane))
		f.must(f.Restart(f.ctx, stack.ControlPlane))
	}
	f.eventuallyBound(40*time.Second, "h-", 32)
	held := f.held()
	for uuid, milli := range held {
		if milli != 1000 {
			t.Errorf("MUST: 32 halves fill 16 GPUs; GPU %s carries %d/1000", uuid, milli)
		}
	}
	if len(held) != 16 {
		t.Errorf("MUST: 16 GPUs are in use; %d are", len(held))
	}
	f.consistent()
}

// TestR99NodeIsDeletedBeforeARestart touches nobody else.
func TestR99NodeIsDeletedBeforeARestart(t *testing.T) {
	f := use(t, stack.A100("n1", 2), stack.A100("n3", 2))
	f.create(stack.Pod("j1", stack.Queue("team"), stack.Whole(2), stack.OnNode(corev1.LabelHostname, "n1")))
	f.eventuallyBound(15*time.Second, "j1", 1)
	before := f.pods()["j1"]
	f.must(f.Kill("kube-scheduler")) // so that j2 is promised n3 and not bound
	f.create(stack.Pod("j2", stack.Queue("team"), stack.Whole(2)))
	f.eventually(10*time.Second, func() string {
		for _, p := range f.dump().Pods {
			if p.Name == "j2" && p.Node == "n3" {
				return ""
			}
		}
		return "j2 is not promised n3"
	})
	f.must(f.Client.CoreV1().Nodes().Delete(f.ctx, "n3", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	f.must(f.Kill(stack.ControlPlane))
	f.must(f.AddGPUNodes(f.ctx, stack.A100("n2", 2)))
	f.must(f.Restart(f.ctx, stack.ControlPlane))
	f.must(f.Restart(f.ctx, "kube-scheduler"))
	f.eventually(20*time.Second, func() string {
		if node := f.pods()["j2"].Spec.NodeName; node != "n2" {
			return fmt.Sprintf("NEVER: J2 is stuck on n3; it is on %q; %s", node, f.firstReason("j2"))
		}
		return ""
	})
	after := f.pods()["j1"]
	if after.UID != before.UID || after.DeletionTimestamp != nil || after.Spec.NodeName != "n1" {
		t.Errorf("MUST: J1 is untouched")
	}
}

// TestR101GangAsksForNodes: every member says that it lacks a node, so that an
// autoscaler adds one, and nothing is held on n1 until it comes.
func TestR101GangAsksForNodes(t *testing.T) {
	f := use(t, stack.A100("n1", 1))
	stop := f.record()
	f.gang("g", "team", 2)
	f.create(members("g", "team", 2)...)
	// The double of an autoscaler adds a node per pod that the condition calls
	// unschedulable and that the free room cannot take.
	unplaceable := func() (n int) {
		for name, p := range f.pods() {
			for _, c := range p.Status.Conditions {
				if strings.HasPrefix(name, "g-") && c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
					n++
				}
			}
		}
		return n
	}
	f.eventually(20*time.Second, func() string {
		if n := unplaceable(); n != 2 {
			return fmt.Sprintf("MUST: both members are marked unschedulable; %d are; %s", n, f.firstReason("g-"))
		}
		return ""
	})
	f.always(3*time.Second, func() string {
		for _, p := range f.dump().Pods {
			if strings.HasPrefix(p.Name, "g-") && p.Node != "" {
				return "MUST: nothing is held on n1; " + p.Name + " holds " + p.Node
			}
		}
		return ""
	})
	f.must(f.AddGPUNodes(f.ctx, stack.A100("n2", 1)))
	f.eventuallyBound(20*time.Second, "g-", 2)
	if order := stop(); len(order) != 2 {
		t.Errorf("MUST: both are bound together: %v", order)
	}
}
