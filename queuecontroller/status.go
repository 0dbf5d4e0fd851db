// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/kube"
)

// statusParallel is the number of status writes at a time.
const statusParallel = 8

// statusWriter brings the status of queues and gangs to what the ledger says.
// It compares with what the API server has, so that a status which somebody
// else changed is put right too.
type statusWriter struct {
	options *Options
	metrics *metrics
	events  *teller
	gangs   gangObjects
	// retry is when an object whose write failed is tried again, by its UID or,
	// for one that is to be made, by the key of its gang.
	mu    sync.Mutex
	retry map[types.UID]retry
	// worded is when the status of a gang was last written, by the UID of its
	// PodGroup.
	worded map[types.UID]time.Time
}

type retry struct {
	at    time.Time
	delay time.Duration
}

func newStatusWriter(o *Options, events *teller, m *metrics) *statusWriter {
	return &statusWriter{options: o, metrics: m, events: events, gangs: gangObjects{o.Dynamic}, retry: map[types.UID]retry{}}
}

// write writes every status that differs.
func (s *statusWriter) write(ctx context.Context, queues []kube.QueueView, groups []kube.GroupView) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, statusParallel)
	differ := map[types.UID]bool{}
	send := func(id types.UID, write func() error) {
		differ[id] = true
		if s.standsBack(id) {
			return
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			s.settle(id, write())
		})
	}
	for _, q := range queues {
		if status := s.queueStatus(q); !equality.Semantic.DeepEqual(status, q.Object.Status) {
			send(q.Object.GetUID(), func() error { return s.patch(ctx, v1alpha1.QueueResource, q.Object, status) })
		}
	}
	worded := make(map[types.UID]time.Time, len(groups))
	for _, g := range groups {
		if s.gangs.differs(g) {
			send(types.UID("gang/"+g.Derived.Key), func() error { return s.gangs.write(ctx, g) })
		}
		if g.Object == nil || g.Derived != nil && g.Derived.Gone {
			continue
		}
		uid := g.Object.GetUID()
		worded[uid] = s.worded[uid]
		if status := groupStatus(g); s.groupDiffers(g.Object, status) {
			worded[uid] = s.options.Clock()
			send(uid, func() error {
				err := s.patch(ctx, v1alpha1.PodGroupResource, g.Object, status)
				if err == nil {
					s.events.gang(g.Object, status)
				}
				return err
			})
		}
	}
	wait.Wait()
	s.giveUp(differ)
	s.worded = worded
}

// groupDiffers is true if a gang's status is to be written: at once if anything
// has changed, now and then while only the numbers in its sentences do.
func (s *statusWriter) groupDiffers(g *v1alpha1.PodGroup, status v1alpha1.PodGroupStatus) bool {
	if equality.Semantic.DeepEqual(status, g.Status) {
		return false
	}
	return !onlyReworded(g.Status, status) || s.options.Clock().Sub(s.worded[g.UID]) > reworded
}

// giveUp forgets the failures of all but the given objects: others are as they
// should be, or gone.
func (s *statusWriter) giveUp(differ map[types.UID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.retry, func(id types.UID, _ retry) bool { return !differ[id] })
}

// behind is true while a failed write has to be tried again.
func (s *statusWriter) behind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.retry) > 0
}

func (s *statusWriter) standsBack(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Clock().Before(s.retry[uid].at)
}

func (s *statusWriter) settle(uid types.UID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.retry, uid)
		return
	}
	delay := min(max(2*s.retry[uid].delay, retryFirst), retryMost)
	s.retry[uid] = retry{s.options.Clock().Add(delay), delay}
	s.metrics.failed.WithLabelValues("status").Inc()
	s.options.Log.Warn("a status could not be written and is tried again", "err", err, "in", delay)
}

// patch replaces an object's status if it is still that object.
func (s *statusWriter) patch(ctx context.Context, gvr schema.GroupVersionResource, of metav1.Object, status any) error {
	body, err := json.Marshal([]object{
		{"op": "test", "path": "/metadata/uid", "value": of.GetUID()},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = s.options.Dynamic.Resource(gvr).Namespace(of.GetNamespace()).
		Patch(ctx, of.GetName(), types.JSONPatchType, body, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("status of %s %s: %w", gvr.Resource, of.GetName(), err)
}

// queueStatus is the status that a queue should have.
func (s *statusWriter) queueStatus(q kube.QueueView) v1alpha1.QueueStatus {
	out := *q.Object.Status.DeepCopy()
	out.ObservedGeneration = q.Object.Generation
	out.Allocated = s.list(q.Report.Allocated)
	out.AllocatedNonPreemptible = s.list(q.Report.AllocatedNonPreemptible)
	out.Requested = s.list(q.Report.Requested)
	out.FairShare = s.list(q.Report.FairShare)
	out.Usage = s.parts(q.Usage)
	out.Running = v1alpha1.WorkloadCounts{Pods: int32(q.RunningPods), Workloads: int32(q.RunningWorkloads)}
	out.Pending = v1alpha1.WorkloadCounts{Pods: int32(q.Report.PendingPods), Workloads: int32(q.Report.PendingWorkloads)}
	out.Children = q.Children
	for _, c := range s.queueConditions(q) {
		c.ObservedGeneration = q.Object.Generation
		meta.SetStatusCondition(&out.Conditions, c)
	}
	return out
}

// list writes amounts as people do; what is unlimited or zero is left out,
// except GPUs, which every column shows.
func (s *statusWriter) list(in model.Quantities) map[string]resource.Quantity {
	var out map[string]resource.Quantity
	for name, a := range in {
		if a == 0 && name != model.ResourceGPU {
			continue
		}
		if key, q, ok := s.options.Config.ResourceQuantity(name, a); ok {
			if out == nil {
				out = map[string]resource.Quantity{}
			}
			out[key] = q
		}
	}
	return out
}

// parts writes millionths in thousandths of one: usage creeps, and status is not
// written for less.
func (s *statusWriter) parts(in model.Quantities) map[string]resource.Quantity {
	var out map[string]resource.Quantity
	for name, millionths := range in {
		key, _, ok := s.options.Config.ResourceQuantity(name, millionths)
		if milli := int64(millionths+500) / 1000; ok && milli > 0 {
			if out == nil {
				out = map[string]resource.Quantity{}
			}
			out[key] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
	return out
}

func (s *statusWriter) queueConditions(q kube.QueueView) []metav1.Condition {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonQueueReady, Message: "pods of the queue can be placed"}
	not := func(reason, message string) {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reason, message
	}
	switch {
	case q.ParentMissing != "":
		not(v1alpha1.ReasonParentMissing, fmt.Sprintf("queue %s above queue %s does not exist; create it or change spec.parent", q.ParentMissing, q.Object.Name))
	case q.ParentLoop:
		not(v1alpha1.ReasonParentLoop, fmt.Sprintf("following spec.parent from queue %s leads in a circle; one of these queues must be a root", q.Object.Name))
	case len(q.Children) > 0:
		not(v1alpha1.ReasonNotLeaf, fmt.Sprintf("queue %s has queues below it, so pods must name one of those", q.Object.Name))
	}
	over := flag(v1alpha1.ConditionOverQuota, s.overQuota(q), "over its quota")
	backlog := flag(v1alpha1.ConditionBacklogged, map[bool]string{true: "pods wait, so new ones are gated"}[q.WaitingPods > 0], "pods waiting")
	return []metav1.Condition{ready, over, backlog}
}

// flag is true with the sentence, or false if there is none.
func flag(kind, sentence, what string) metav1.Condition {
	if sentence == "" {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "No" + kind, Message: "the queue has nothing " + what}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: sentence}
}

// overQuota names the first resource of which the queue holds more than its
// quota.
func (s *statusWriter) overQuota(q kube.QueueView) string {
	for _, name := range sortedKeys(q.Object.Spec.Quota) {
		quota, finite := q.Object.Spec.Quota[name].Quantity()
		held, ok := q.Report.Allocated[s.options.Config.ResourceName(name)]
		if !finite || !ok {
			continue
		}
		if _, have, ok := s.options.Config.ResourceQuantity(s.options.Config.ResourceName(name), held); ok && held > amount.Amount(0) && have.Cmp(quota) > 0 {
			return "the queue holds more " + name + " than its quota, which others may reclaim"
		}
	}
	return ""
}
