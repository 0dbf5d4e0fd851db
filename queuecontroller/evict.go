// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/kube"
)

// Evictor takes pods away.
type Evictor interface {
	// Evict asks once for the pod's eviction. An error wrapping ErrForbidden
	// says that the pod may not be evicted now; the claimant then gets another
	// plan.
	Evict(ctx context.Context, victim kube.Victim) error
}

// ErrForbidden says that the API server refused an eviction: a disruption
// budget, an admission policy, or missing rights.
var ErrForbidden = errors.New("eviction is forbidden")

// APIEvictor evicts through the Eviction API, which decides by the disruption
// budgets and gives the pod its own grace period.
type APIEvictor struct{ Client kubernetes.Interface }

// Evict implements Evictor.
func (a APIEvictor) Evict(ctx context.Context, victim kube.Victim) error {
	uid := types.UID(victim.Pod.UID)
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: victim.Pod.Name, Namespace: victim.Pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	}
	err := a.Client.PolicyV1().Evictions(victim.Pod.Namespace).Evict(ctx, eviction)
	switch {
	case err == nil || apierrors.IsNotFound(err):
		return nil
	case apierrors.IsTooManyRequests(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return err
}

// forgiveAfter is how often an eviction may be forbidden before the victim is
// spared: budgets change within seconds when replicas come back.
const forgiveAfter = 3

// evictions carries out what the plan evicts: each victim once for a demand.
type evictions struct {
	options *Options
	events  *teller
	metrics *metrics
	writes  *writer[string] // by pod UID

	mu        sync.Mutex
	forbidden map[string]int // by pod UID
}

func newEvictions(o *Options, events *teller, m *metrics) *evictions {
	v := &evictions{options: o, events: events, metrics: m, forbidden: map[string]int{}}
	v.writes = newWriter("evictions", o.Workers, noLimit, v.evict, o, m)
	return v
}

func (v *evictions) run(ctx context.Context) { v.writes.run(ctx) }

func (v *evictions) take(plan []cycle.Eviction) {
	for _, e := range plan {
		v.writes.add(e.Pod)
	}
}

func (v *evictions) evict(ctx context.Context, uid string) error {
	victim, ok := v.options.Ledger.VictimOf(uid)
	if !ok || v.options.Evictor == nil {
		v.settled(uid)
		return nil
	}
	err := v.options.Evictor.Evict(ctx, victim)
	switch {
	case errors.Is(err, ErrForbidden) && v.again(uid):
		v.options.Log.Info("a victim may not be evicted and is spared", "pod", victim.Pod.String(), "err", err)
		v.options.Ledger.Pardon(uid)
		return nil
	case err != nil:
		return fmt.Errorf("evict pod %s: %w", victim.Pod, err)
	}
	v.settled(uid)
	v.metrics.evicted.WithLabelValues(string(victim.Eviction.Rule)).Inc()
	v.events.recorder.Event(podReference(victim.Pod), corev1.EventTypeNormal, v1alpha1.ReasonEvicted, victim.Eviction.Reason.Message)
	if err := v.explain(ctx, victim); err != nil {
		v.options.Log.Warn("a victim's condition could not be written", "pod", victim.Pod.String(), "err", err)
	}
	return nil
}

// again counts a refusal; true when there were too many.
func (v *evictions) again(uid string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forbidden[uid]++
	if v.forbidden[uid] < forgiveAfter {
		return false
	}
	delete(v.forbidden, uid)
	return true
}

func (v *evictions) settled(uid string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.forbidden, uid)
}

// explain says in the condition DisruptionTarget who took the place. It comes
// after the eviction, which writes a condition of its own.
func (v *evictions) explain(ctx context.Context, victim kube.Victim) error {
	condition := object{
		"type": corev1.DisruptionTarget, "status": corev1.ConditionTrue,
		"reason":             string(victim.Eviction.Reason.Code),
		"message":            victim.Eviction.Reason.Message,
		"lastTransitionTime": metav1.NewTime(v.options.Clock()),
	}
	patch := object{"metadata": object{"uid": victim.Pod.UID}, "status": object{"conditions": []object{condition}}}
	err := patchPod(ctx, v.options.Client, victim.Pod, patch, "status")
	if apierrors.IsConflict(err) {
		return nil // gone already, another pod has the name
	}
	return err
}
