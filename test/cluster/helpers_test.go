// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/check"
	"github.com/fairslice/fairslice/test/stack"
)

// fixture is the suite's cluster, emptied at the end of the test.
type fixture struct {
	*stack.Stack
	t   *testing.T
	ctx context.Context
}

// use gives the test a queue "team" without limits and the nodes.
func use(t *testing.T, nodes ...stack.GPUNode) fixture {
	t.Helper()
	t.Parallel()
	f := fixture{Stack: <-idle, t: t, ctx: t.Context()}
	t.Cleanup(func() { idle <- f.Stack })
	t.Cleanup(f.empty)
	f.must(f.AddGPUNodes(f.ctx, nodes...))
	f.queue("team", map[string]any{})
	return f
}

func (f fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// empty removes everything that a test made, and reports the control plane's
// last lines when the test failed.
func (f fixture) empty() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if f.t.Failed() {
		for _, component := range []string{stack.ControlPlane, "kube-scheduler"} {
			if text, err := f.Logs(component); err == nil {
				lines := strings.Split(strings.TrimSpace(text), "\n")
				if _, panicked, found := strings.Cut(text, "\npanic: "); found {
					f.t.Logf("%s panicked: %s", component, panicked[:min(len(panicked), 4000)])
					continue
				}
				f.t.Logf("last lines of %s:\n%s", component, strings.Join(lines[max(0, len(lines)-25):], "\n"))
			}
		}
	}
	now, all := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{}
	pods := f.Client.CoreV1().Pods(metav1.NamespaceDefault)
	// With thousands of pods the API server gives up half-way, and is asked again.
	err := pods.DeleteCollection(ctx, now, all)
	for err != nil && ctx.Err() == nil {
		time.Sleep(time.Second)
		err = pods.DeleteCollection(ctx, now, all)
	}
	f.report(err)
	f.report(f.Dynamic.Resource(v1alpha1.PodGroupResource).Namespace(metav1.NamespaceDefault).DeleteCollection(ctx, now, all))
	queues, err := f.Dynamic.Resource(v1alpha1.QueueResource).List(ctx, all)
	f.report(err)
	for _, q := range queues.Items {
		if q.GetName() != v1alpha1.DefaultQueue {
			f.report(f.Dynamic.Resource(v1alpha1.QueueResource).Delete(ctx, q.GetName(), now))
		}
	}
	for {
		left, err := pods.List(ctx, all)
		f.report(err)
		if err != nil || len(left.Items) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.report(f.Client.CoreV1().Nodes().DeleteCollection(ctx, now, all))
}

func (f fixture) report(err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Error("cleaning up:", err)
	}
}

func (f fixture) queue(name string, spec map[string]any) {
	f.t.Helper()
	f.must(f.CreateQueue(f.ctx, name, spec))
}

func (f fixture) gang(name, queue string, members int) {
	f.t.Helper()
	f.must(f.CreatePodGroup(f.ctx, name, map[string]any{"queue": queue, "minMember": int64(members)}))
}

// create submits the pods, all at the same moment.
func (f fixture) create(pods ...*corev1.Pod) {
	f.t.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for _, p := range pods {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if _, err := f.CreatePod(f.ctx, p); err != nil {
				f.t.Errorf("create pod %s: %v", p.Name, err)
			}
		})
	}
	wg.Wait()
}

// members makes the pods of a gang, one whole GPU each.
func members(gang, queue string, n int, options ...stack.PodOption) (pods []*corev1.Pod) {
	for i := range n {
		o := append([]stack.PodOption{stack.Queue(queue), stack.Gang(gang), stack.Whole(1)}, options...)
		pods = append(pods, stack.Pod(fmt.Sprintf("%s-%d", gang, i), o...))
	}
	return pods
}

func (f fixture) pods() map[string]corev1.Pod {
	f.t.Helper()
	list, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	pods := map[string]corev1.Pod{}
	for _, p := range list.Items {
		pods[p.Name] = p
	}
	return pods
}

func (f fixture) boundCount(prefix string) (n int) {
	for name, p := range f.pods() {
		if strings.HasPrefix(name, prefix) && p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// eventually fails the test where stack.Eventually does.
func (f fixture) eventually(limit time.Duration, condition func() (missing string)) {
	f.t.Helper()
	f.must(stack.Eventually(limit, condition))
}

// always checks that the condition holds for the whole time.
func (f fixture) always(span time.Duration, condition func() (wrong string)) {
	f.t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if wrong := condition(); wrong != "" {
			f.t.Fatal(wrong)
		}
	}
}

func (f fixture) eventuallyBound(limit time.Duration, prefix string, n int) {
	f.t.Helper()
	f.eventually(limit, func() string {
		if got := f.boundCount(prefix); got != n {
			return fmt.Sprintf("%d of %d pods %q are bound; %s", got, n, prefix+"*", f.firstReason(prefix))
		}
		return ""
	})
}

// reason is what the pod's user is told about its waiting.
func reason(p corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionWaiting && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

func (f fixture) firstReason(prefix string) string {
	for name, p := range f.pods() {
		if strings.HasPrefix(name, prefix) && p.Spec.NodeName == "" {
			return fmt.Sprintf("pod %s: %q, gates %v, nominated %q", name, reason(p), p.Spec.SchedulingGates, p.Status.NominatedNodeName)
		}
	}
	return "all exist and are bound"
}

// eventuallyWaits waits until the pod is told a reason with all the parts.
func (f fixture) eventuallyWaits(limit time.Duration, pod string, parts ...string) {
	f.t.Helper()
	f.eventually(limit, func() string {
		p := f.pods()[pod]
		if p.Spec.NodeName != "" {
			return fmt.Sprintf("pod %s is bound to %s", pod, p.Spec.NodeName)
		}
		for _, part := range parts {
			if !strings.Contains(reason(p), part) {
				return fmt.Sprintf("pod %s waits with %q, which lacks %q", pod, reason(p), part)
			}
		}
		return ""
	})
}

// held sums what assignments hold of each GPU in thousandths, and checks each
// against its pod.
func (f fixture) held() map[string]int64 {
	f.t.Helper()
	milli, mib := map[string]int64{}, map[string]int64{}
	sizes := f.gpuSizes()
	for name, p := range f.pods() {
		text := p.Annotations[v1alpha1.AnnotationGPUAssignment]
		if p.Spec.NodeName == "" || text == "" {
			continue
		}
		a, err := v1alpha1.DecodeAssignment(text)
		f.must(err)
		if a.Node != p.Spec.NodeName || a.PodUID != string(p.UID) {
			f.t.Errorf("pod %s on %s: its assignment names node %s and UID %s", name, p.Spec.NodeName, a.Node, a.PodUID)
		}
		for _, c := range a.Containers {
			for _, g := range c.GPUs {
				milli[g.UUID] += g.MilliGPU
				mib[g.UUID] += g.MemoryMiB
			}
		}
	}
	for uuid := range milli {
		if milli[uuid] > 1000 || mib[uuid] > sizes[uuid] {
			f.t.Errorf("GPU %s carries %d/1000 and %d of %d MiB", uuid, milli[uuid], mib[uuid], sizes[uuid])
		}
	}
	return milli
}

func (f fixture) gpuSizes() map[string]int64 {
	f.t.Helper()
	nodes, err := f.Client.CoreV1().Nodes().List(f.ctx, metav1.ListOptions{})
	f.must(err)
	sizes := map[string]int64{}
	for _, n := range nodes.Items {
		inventory, err := v1alpha1.DecodeInventory(n.Annotations[v1alpha1.AnnotationGPUs])
		f.must(err)
		for _, g := range inventory.GPUs {
			sizes[g.UUID] = g.MemoryMiB
		}
	}
	return sizes
}

// consistent checks that ledger and API server agree once all is at rest.
func (f fixture) consistent() {
	f.t.Helper()
	f.must(check.Source{Client: f.Client, Ledger: f.LedgerDump}.Settled(f.ctx, 15*time.Second))
}

// record follows all bindings from now on; stop returns them in order.
func (f fixture) record() (stop func() []string) {
	f.t.Helper()
	w, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).Watch(f.ctx, metav1.ListOptions{})
	f.must(err)
	done := make(chan []string, 1)
	go func() {
		var order []string
		seen := map[string]bool{}
		for event := range w.ResultChan() {
			p, ok := event.Object.(*corev1.Pod)
			if ok && event.Type != watch.Deleted && p.Spec.NodeName != "" && !seen[p.Name] {
				seen[p.Name] = true
				order = append(order, p.Name)
			}
		}
		done <- order
	}()
	return func() []string {
		time.Sleep(200 * time.Millisecond)
		w.Stop()
		return <-done
	}
}
