// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	// says that the pod may not be evicted now, one wrapping ErrFailing that the
	// API server could not carry it out; if that is repeated the claimant gets
	// another plan. After any other error it is asked again.
	Evict(ctx context.Context, victim kube.Victim) error
}

var (
	// ErrForbidden says that the API server refused an eviction: a disruption
	// budget, an admission policy or webhook, or missing rights.
	ErrForbidden = errors.New("eviction is forbidden")
	// ErrFailing says that the API server tried and failed, perhaps for this pod
	// alone: a webhook that does not answer.
	ErrFailing = errors.New("eviction fails")
)

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
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	switch kindOf(ctx, err) {
	case refused:
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	case failing:
		return fmt.Errorf("%w: %w", ErrFailing, err)
	}
	return err
}

// answer is what an error of the Eviction API means for the victim.
type answer int8

const (
	later   answer = iota // nothing: the API server is busy, away, or has other rights for us soon
	refused               // it may not be evicted now
	failing               // it could not be evicted
)

// kindOf reads an error. A policy or webhook may refuse with any code of a
// client's mistake, a budget refuses as if there were too many requests, with its
// own cause; too many requests without it, and what names a time to come back,
// are about us.
func kindOf(ctx context.Context, err error) answer {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return refused
	case !answered && ctx.Err() != nil, apierrors.IsTimeout(err):
		return failing // it did not answer in time
	case !answered, apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsUnauthorized(err), apierrors.IsConflict(err):
		return later
	}
	if code := status.ErrStatus.Code; code >= http.StatusBadRequest && code < http.StatusInternalServerError {
		return refused
	}
	return failing
}

// How often an eviction may be refused, or fail, before the victim is spared:
// budgets change when replicas come back, and a webhook may be away for a moment.
// With the growing delays between them ten tries take ten seconds.
const (
	forgiveAfter = 3
	giveUpAfter  = 10
)

// evictions carries out what the plan evicts: each victim once for a demand.
type evictions struct {
	options *Options
	events  *teller
	metrics *metrics
	writes  *writer[string] // by pod UID
	// reasons tell victims why. They are written beside the evictions: all victims
	// of a demand leave at once, before the first one has been told.
	reasons *writer[string]

	mu       sync.Mutex
	failures map[string]failures    // by pod UID
	untold   map[string]kube.Victim // by pod UID
}

// failures counts the answers of the API server for one victim.
type failures struct{ refused, failed, all int }

func newEvictions(o *Options, events *teller, m *metrics) *evictions {
	v := &evictions{options: o, events: events, metrics: m, failures: map[string]failures{}, untold: map[string]kube.Victim{}}
	v.writes = newWriter("evictions", o.Workers, noLimit, v.evict, o, m)
	v.reasons = newWriter("victims", o.Workers/4+1, noLimit, v.tell, o, m)
	return v
}

func (v *evictions) run(ctx context.Context) {
	var wait sync.WaitGroup
	wait.Go(func() { v.reasons.run(ctx) })
	v.writes.run(ctx)
	wait.Wait()
}

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
	if err != nil {
		spare, repeated := v.again(uid, err)
		switch {
		case spare:
			v.options.Log.Info("a victim cannot be evicted and is spared", "pod", victim.Pod.String(), "err", err)
			v.options.Ledger.Pardon(uid, saidBy(err))
			return nil
		case repeated:
			v.options.Ledger.EvictionFails(uid, saidBy(err))
		}
		return fmt.Errorf("evict pod %s: %w", victim.Pod, err)
	}
	if v.settled(uid) {
		v.options.Ledger.EvictionFails(uid, "")
	}
	v.metrics.evicted.WithLabelValues(string(victim.Eviction.Rule)).Inc()
	v.events.recorder.Event(podReference(victim.Pod), corev1.EventTypeNormal, v1alpha1.ReasonEvicted, victim.Eviction.Reason.Message)
	v.mu.Lock()
	v.untold[uid] = victim
	v.mu.Unlock()
	v.reasons.add(uid)
	return nil
}

// tell writes into the condition of an evicted pod why.
func (v *evictions) tell(ctx context.Context, uid string) error {
	v.mu.Lock()
	victim, untold := v.untold[uid]
	v.mu.Unlock()
	if !untold {
		return nil
	}
	if err := v.explain(ctx, victim); err != nil {
		return fmt.Errorf("tell pod %s why it was evicted: %w", victim.Pod, err)
	}
	v.mu.Lock()
	delete(v.untold, uid)
	v.mu.Unlock()
	return nil
}

// again counts what went wrong: spare is true once it is enough, repeated from the
// second time on.
func (v *evictions) again(uid string, err error) (spare, repeated bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := v.failures[uid]
	n.all++
	switch {
	case errors.Is(err, ErrForbidden):
		n.refused++
	case errors.Is(err, ErrFailing):
		n.failed++
	}
	if n.refused >= forgiveAfter || n.failed >= giveUpAfter {
		delete(v.failures, uid)
		return true, true
	}
	v.failures[uid] = n
	return false, n.all > 1
}

// saidBy is what the API server said, without our own words around it.
func saidBy(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus.Message
	}
	return err.Error()
}

// settled forgets what went wrong; true if something did.
func (v *evictions) settled(uid string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, failed := v.failures[uid]
	delete(v.failures, uid)
	return failed
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
