// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairslice/fairslice/kube"
)

// fakeEvictor records evictions and what the claimant had at that moment.
type fakeEvictor struct {
	mu      sync.Mutex
	evicted []string
	answer  func(n int) error // for the n-th call, from 1
	check   func()
}

func (f *fakeEvictor) Evict(_ context.Context, victim kube.Victim) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.evicted = append(f.evicted, victim.Pod.Name)
	if f.check != nil {
		f.check()
	}
	if f.answer != nil {
		return f.answer(len(f.evicted))
	}
	return nil
}

func (f *fakeEvictor) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.evicted)
}

// reclaim is a stand where queue a must take back its GPU from queue b.
func reclaim(t *testing.T, evictor *fakeEvictor) *stand {
	s := newStand(t, evictor)
	s.node("n1", 1)
	s.queue("a", 1)
	s.queue("b", 0)
	s.pod("victim", "b", 1, running("n1"))
	s.pod("claimant", "a", 1)
	return s
}

// TestPromiseComesBeforeTheEviction, and the victim is evicted once and told by
// whom.
func TestPromiseComesBeforeTheEviction(t *testing.T) {
	evictor := &fakeEvictor{}
	s := reclaim(t, evictor)
	evictor.check = func() {
		if view, _ := s.ledger.Lookup("uid-claimant"); view.PlannedNode != "n1" || view.Startable {
			t.Errorf("the claimant is planned on %q, startable %v, when its victim goes", view.PlannedNode, view.Startable)
		}
	}
	s.run(func() bool { return s.count("patch pods/status victim", "DisruptionTarget") > 0 })
	for range 10 {
		s.control.cycle()
	}
	if evictor.calls() != 1 {
		t.Errorf("evicted %d times, want once", evictor.calls())
	}
	if got := s.written("DisruptionTarget"); len(got) != 1 || !strings.Contains(got[0], "claimant") || !strings.Contains(got[0], `"reason":"Reclaimed`) {
		t.Errorf("the victim's condition is %q, want who took its place and why", got)
	}
	if event := <-s.events.Events; !strings.Contains(event, "Evicted") || !strings.Contains(event, "claimant") {
		t.Errorf("the victim's event is %q", event)
	}
	if s.count("schedulingGates") > 0 {
		t.Error("the claimant was let go before its victim was gone")
	}
	s.ledger.RemovePod("uid-victim")
	if _, ok := s.ledger.StartOf("uid-claimant"); !ok {
		t.Error("the claimant cannot start after its victim is gone")
	}
}

// TestForbiddenEvictionIsGivenUp: a budget that forbids is obeyed, and the
// claimant waits with another plan.
func TestForbiddenEvictionIsGivenUp(t *testing.T) {
	evictor := &fakeEvictor{answer: func(int) error { return fmt.Errorf("%w: budget", ErrForbidden) }}
	s := reclaim(t, evictor)
	s.run(func() bool {
		view, _ := s.ledger.Lookup("uid-claimant")
		return evictor.calls() >= forgiveAfter && view.PlannedNode == ""
	})
	if _, ok := s.ledger.VictimOf("uid-victim"); ok {
		t.Error("the victim is still to be evicted")
	}
	if evictor.calls() != forgiveAfter {
		t.Errorf("asked %d times, want %d", evictor.calls(), forgiveAfter)
	}
	if s.count("DisruptionTarget") > 0 || len(s.events.Events) > 0 && strings.Contains(<-s.events.Events, "Evicted") {
		t.Error("a pod that was not evicted was told that it is")
	}
}

// TestFailedEvictionIsTriedAgain: lost connections are not refusals.
func TestFailedEvictionIsTriedAgain(t *testing.T) {
	evictor := &fakeEvictor{answer: func(n int) error {
		if n < 6 {
			return errors.New("connection lost")
		}
		return nil
	}}
	s := reclaim(t, evictor)
	s.run(func() bool { return s.count("DisruptionTarget") > 0 })
	if evictor.calls() != 6 {
		t.Errorf("asked %d times, want 6", evictor.calls())
	}
}

// TestNothingIsEvictedWithoutAnEvictor.
func TestNothingIsEvictedWithoutAnEvictor(t *testing.T) {
	s := newStand(t, nil)
	s.node("n1", 1)
	s.queue("a", 1)
	s.queue("b", 0)
	s.pod("victim", "b", 1, running("n1"))
	s.pod("claimant", "a", 1)
	s.control.cycle()
	if _, ok := s.ledger.VictimOf("uid-victim"); ok {
		t.Error("a victim was chosen")
	}
	if view, _ := s.ledger.Lookup("uid-claimant"); view.PlannedNode != "" {
		t.Errorf("the claimant is planned on %s", view.PlannedNode)
	}
}

// TestAPIEvictor: what the answers of the Eviction API mean.
func TestAPIEvictor(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "victim")
	budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget d needs 3 healthy pods"}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "policy", Kind: "Eviction"}, "victim", nil)
	hanging, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		answer error
		ctx    context.Context
		want   error // ErrForbidden, ErrFailing or errLater
	}{
		"done":                     {answer: nil},
		"the pod is gone":          {answer: gone},
		"a budget":                 {answer: budget, want: ErrForbidden},
		"a webhook denies":         {answer: apierrors.NewForbidden(corev1.Resource("pods"), "victim", errors.New("denied")), want: ErrForbidden},
		"a policy denies":          {answer: invalid, want: ErrForbidden},
		"a policy's own code":      {answer: apierrors.NewBadRequest("no"), want: ErrForbidden},
		"a webhook is away":        {answer: apierrors.NewInternalError(errors.New("failed calling webhook")), want: ErrFailing},
		"no answer in time":        {answer: context.DeadlineExceeded, ctx: hanging, want: ErrFailing},
		"the server gave up":       {answer: apierrors.NewTimeoutError("request did not complete", 1), want: ErrFailing},
		"too many requests of us":  {answer: apierrors.NewTooManyRequests("please try again later", 1), want: errLater},
		"the server is overloaded": {answer: apierrors.NewServerTimeout(corev1.Resource("pods"), "create", 1), want: errLater},
		"the server shuts down":    {answer: apierrors.NewServiceUnavailable("shutting down"), want: errLater},
		"our token is old":         {answer: apierrors.NewUnauthorized("expired"), want: errLater},
		"the name is another's":    {answer: apierrors.NewConflict(corev1.Resource("pods"), "victim", errors.New("uid")), want: errLater},
		"the connection is lost":   {answer: errors.New("connection reset by peer"), want: errLater},
	} {
		s := newStand(t, nil)
		s.refuse = func(string) error { return c.answer }
		ctx := c.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		err := APIEvictor{Client: s.client}.Evict(ctx, kube.Victim{Pod: kube.PodRef{Namespace: "default", Name: "victim", UID: "u"}})
		forbidden, failing := errors.Is(err, ErrForbidden), errors.Is(err, ErrFailing)
		if (err != nil) != (c.want != nil) || forbidden != (c.want == ErrForbidden) || failing != (c.want == ErrFailing) { //nolint:errorlint // the table names them
			t.Errorf("%s: answer %v gives %v, want %v", name, c.answer, err, c.want)
		}
		if c.answer == nil && len(s.written("create pods/eviction")) != 1 {
			t.Error("the Eviction API was not asked")
		}
	}
}

// errLater stands for errors that say nothing about the victim.
var errLater = errors.New("later")

// TestEvictionsThatAreRefused plays what becomes of a claim when the Eviction API
// does not oblige.
//
//	victims v1 v2           pods with one GPU each, on a node each
//	claimant c              a pod that reclaims one GPU
//	answer v1 KIND [said=]  what the Eviction API says of that pod from now on:
//	                        ok, budget, denied, webhook (does not answer), busy, lost
//	step [10]               a cycle, and every victim is asked for once; ten times
//	advance 1m
func TestEvictionsThatAreRefused(t *testing.T) {
	datadriven.RunTest(t, "testdata/refused_evictions.txt", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "victims":
			oneStand = newRefusals(t, len(d.CmdArgs))
			for _, v := range d.CmdArgs {
				oneStand.node("node-"+v.Key, 1)
				oneStand.pod(v.Key, "b", 1, running("node-"+v.Key))
			}
			return ""
		case "claimant":
			oneStand.pod(d.CmdArgs[0].Key, "a", 1)
			return ""
		case "answer":
			oneStand.answers[d.CmdArgs[0].Key] = d.CmdArgs[1].Key
			return ""
		case "advance":
			step, err := time.ParseDuration(d.CmdArgs[0].Key)
			if err != nil {
				t.Fatal(err)
			}
			oneStand.advance(step)
			return ""
		}
		times := 1
		if len(d.CmdArgs) > 0 {
			times, _ = strconv.Atoi(d.CmdArgs[0].Key)
		}
		return oneStand.steps(times)
	})
}

var oneStand *refusals

// refusals is a stand whose Eviction API answers as it is told.
type refusals struct {
	*stand
	answers map[string]string
	asked   []string
}

func newRefusals(t *testing.T, victims int) *refusals {
	r := &refusals{answers: map[string]string{}}
	r.stand = newStand(t, r)
	r.queue("a", int64(victims))
	r.queue("b", 0)
	return r
}

// Evict implements Evictor, through the reading of answers of the real one.
func (r *refusals) Evict(ctx context.Context, victim kube.Victim) error {
	r.asked = append(r.asked, victim.Pod.Name)
	var answer error
	switch r.answers[victim.Pod.Name] {
	case "budget":
		budget := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		budget.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
		answer = budget
	case "denied":
		answer = apierrors.NewForbidden(corev1.Resource("pods"), victim.Pod.Name, errors.New("ValidatingAdmissionPolicy 'keep' denied request"))
	case "webhook":
		answer = apierrors.NewInternalError(errors.New("failed calling webhook \"guard.example.com\""))
	case "busy":
		answer = apierrors.NewTooManyRequests("please try again later", 1)
	case "lost":
		answer = errors.New("connection reset by peer")
	}
	r.refuse = func(string) error { return answer }
	return APIEvictor{Client: r.client}.Evict(ctx, victim)
}

// steps prints who was asked for and what the claimant is told.
func (r *refusals) steps(n int) string {
	r.asked = nil
	for range n {
		r.control.cycle()
		for _, name := range r.names() {
			if _, victim := r.ledger.VictimOf("uid-" + name); victim {
				_ = r.control.evict.evict(r.t.Context(), "uid-"+name) // what goes wrong is told to the claimant
			}
		}
	}
	r.control.cycle()
	var out strings.Builder
	fmt.Fprintf(&out, "asked for %v\n", r.asked)
	for _, w := range r.ledger.Waiting() {
		fmt.Fprintf(&out, "%s: %s: %s\n", w.Pod.Name, w.Reason.Code, w.Reason.Message)
	}
	return out.String()
}

func (r *refusals) names() (names []string) {
	for _, p := range r.ledger.Dump().Pods {
		names = append(names, p.Name)
	}
	return names
}
