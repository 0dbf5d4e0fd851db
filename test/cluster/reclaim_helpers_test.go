// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	lists "slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/test/bed"
	"github.com/fairslice/fairslice/test/stack"
)

func gpus(n int) map[string]any { return map[string]any{"gpu": int64(n)} }

// goneAfter is how long the pod takes to end once it is evicted.
func goneAfter(d time.Duration) stack.PodOption {
	return func(p *corev1.Pod) {
		p.Annotations[bed.GoneAfter] = d.String()
		p.Spec.TerminationGracePeriodSeconds = new(int64(d / time.Second))
	}
}

// priority gives the pod a class of that value, which the test makes.
func (f fixture) priority(value int32) stack.PodOption {
	f.t.Helper()
	name := fmt.Sprintf("p%d", value)
	classes := f.Client.SchedulingV1().PriorityClasses()
	_, err := classes.Create(f.ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error { return classes.Delete(ctx, name, metav1.DeleteOptions{}) })
	option := func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
	// The API server admits pods by a cache that learns of the class a moment later.
	f.eventually(10*time.Second, func() string {
		_, err := f.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(f.ctx, stack.Pod("probe", option), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return option
}

// afterwards cleans up before the pods go.
func (f fixture) afterwards(clean func(context.Context) error) {
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		f.report(clean(ctx))
	})
}

// replicas runs n copies of a pod that a ReplicaSet makes again when they are
// evicted.
func (f fixture) replicas(name string, n int, options ...stack.PodOption) {
	f.t.Helper()
	p := stack.Pod("", append([]stack.PodOption{label("set", name), goneAfter(time.Second)}, options...)...)
	p.Namespace = ""
	sets := f.Client.AppsV1().ReplicaSets(metav1.NamespaceDefault)
	_, err := sets.Create(f.ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(n)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"set": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	f.afterwards(func(ctx context.Context) error {
		return sets.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)})
	})
}

// running counts the pods of a prefix that have a node and are not leaving.
func (f fixture) running(prefix string) (n int) {
	f.t.Helper()
	for name, p := range f.pods() {
		if strings.HasPrefix(name, prefix) && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// eventuallyRun waits until exactly as many pods of each prefix run and none of
// them is leaving.
func (f fixture) eventuallyRun(limit time.Duration, want map[string]int) {
	f.t.Helper()
	f.eventually(limit, func() string {
		running, waits := map[string]int{}, map[string]string{}
		for name, p := range f.pods() {
			if p.DeletionTimestamp != nil {
				return "pod " + name + " is still leaving"
			}
			for prefix := range want {
				switch {
				case !strings.HasPrefix(name, prefix):
				case p.Spec.NodeName != "":
					running[prefix]++
				default:
					waits[prefix] = fmt.Sprintf("; pod %s waits: %q", name, reason(p))
				}
			}
		}
		var missing []string
		for _, prefix := range lists.Sorted(maps.Keys(want)) {
			if running[prefix] != want[prefix] {
				missing = append(missing, fmt.Sprintf("%d pods %s* run, want %d%s", running[prefix], prefix, want[prefix], waits[prefix]))
			}
		}
		return strings.Join(missing, "\n")
	})
}

// eviction is one pod's, as the API server showed it.
type eviction struct {
	pod, set, node  string
	at              time.Time // when it was seen to leave
	asked           time.Time // when it was asked to, by the API server's clock
	reason, message string
}

// observer notes every eviction, by the condition that the Eviction API writes,
// and every pod that was bound.
type observer struct {
	f      fixture
	mu     sync.Mutex
	seen   map[string]eviction // by pod UID
	placed map[string]bool     // by pod UID
}

// evictions observes from now on. It lives through a restart of the API server.
func (f fixture) evictions() *observer {
	f.t.Helper()
	o := &observer{f: f, seen: map[string]eviction{}, placed: map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(f.Client, 0, informers.WithNamespace(metav1.NamespaceDefault))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    o.note,
		UpdateFunc: func(_, now any) { o.note(now) },
		DeleteFunc: o.note,
	})
	f.must(err)
	stop := make(chan struct{})
	f.t.Cleanup(func() { close(stop) })
	factory.Start(stop)
	cache.WaitForCacheSync(f.ctx.Done(), pods.HasSynced)
	return o
}

func (o *observer) note(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	p, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.Spec.NodeName != "" {
		o.placed[string(p.UID)] = true
	}
	if p.DeletionTimestamp == nil {
		return
	}
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue {
			continue
		}
		e, known := o.seen[string(p.UID)]
		if !known {
			e = eviction{pod: p.Name, set: p.Labels["set"], node: p.Spec.NodeName, at: time.Now(), asked: askedToLeave(p)}
		}
		e.reason, e.message = c.Reason, c.Message
		o.seen[string(p.UID)] = e
	}
}

// askedToLeave is the end of the pod's grace period less its length.
func askedToLeave(p *corev1.Pod) time.Time {
	at := p.DeletionTimestamp.Time
	if grace := p.DeletionGracePeriodSeconds; grace != nil {
		at = at.Add(-time.Duration(*grace) * time.Second)
	}
	return at
}

// withinOneCycle checks that all victims were asked to leave together.
func (o *observer) withinOneCycle(span time.Duration) {
	o.f.t.Helper()
	all := o.all()
	first := lists.MinFunc(all, func(a, b eviction) int { return a.asked.Compare(b.asked) })
	last := lists.MaxFunc(all, func(a, b eviction) int { return a.asked.Compare(b.asked) })
	if took := last.asked.Sub(first.asked); took > span {
		o.f.t.Errorf("%s was asked to leave %s after %s, want all %d within %s", last.pod, took, first.pod, len(all), span)
	}
}

// all lists the evictions so far in the order in which the pods began to leave.
func (o *observer) all() []eviction {
	o.mu.Lock()
	defer o.mu.Unlock()
	return lists.SortedFunc(maps.Values(o.seen), func(a, b eviction) int { return a.at.Compare(b.at) })
}

// bound counts the pods that were bound until now, those of before included.
func (o *observer) bound() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.placed)
}

// want checks how many pods of each ReplicaSet, or which pods without one, were
// evicted, and that nobody else was.
func (o *observer) want(want map[string]int) {
	o.f.t.Helper()
	got := map[string]int{}
	for _, e := range o.all() {
		if e.set == "" {
			e.set = e.pod
		}
		got[e.set]++
	}
	if !maps.Equal(got, want) {
		var why []string
		for _, e := range o.all() {
			why = append(why, e.pod+": "+e.message)
		}
		o.f.t.Errorf("evicted %v, want %v:\n  %s", got, want, strings.Join(why, "\n  "))
	}
}

// setQueue changes fields of a queue's spec.
func (f fixture) setQueue(name string, spec map[string]any) {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{"spec": spec})
	f.must(err)
	_, err = f.Dynamic.Resource(v1alpha1.QueueResource).Patch(f.ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	f.must(err)
}

// dump reads the ledger.
func (f fixture) dump() (d kube.Dump) {
	f.t.Helper()
	f.must(f.LedgerDump(f.ctx, &d))
	return d
}

// cycles makes the controller decide n times, each time after a change that
// concerns nobody's room.
func (f fixture) cycles(n int) {
	f.t.Helper()
	end := f.dump().Cycles + uint64(n)
	weight := 0
	if err := f.CreateQueue(f.ctx, "bystander", map[string]any{}); !apierrors.IsAlreadyExists(err) {
		f.must(err)
	}
	f.eventually(60*time.Second, func() string {
		weight++
		f.setQueue("bystander", map[string]any{"overQuotaWeight": gpus(weight%2 + 1)})
		if now := f.dump().Cycles; now < end {
			return fmt.Sprintf("%d of %d cycles are left", end-now, n)
		}
		return ""
	})
}
