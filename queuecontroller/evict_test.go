// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

// TestAPIEvictor: which answers of the Eviction API are refusals.
func TestAPIEvictor(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "victim")
	for _, c := range []struct {
		answer    error
		err       bool
		forbidden bool
	}{
		{nil, false, false},
		{gone, false, false},
		{apierrors.NewTooManyRequests("budget", 1), true, true},
		{apierrors.NewForbidden(corev1.Resource("pods"), "victim", errors.New("policy")), true, true},
		{apierrors.NewInternalError(errors.New("etcd")), true, false},
	} {
		s := newStand(t, nil)
		s.refuse = func(string) error { return c.answer }
		err := APIEvictor{Client: s.client}.Evict(t.Context(), kube.Victim{Pod: kube.PodRef{Namespace: "default", Name: "victim", UID: "u"}})
		if (err != nil) != c.err || errors.Is(err, ErrForbidden) != c.forbidden {
			t.Errorf("answer %v gives %v", c.answer, err)
		}
		if c.answer == nil && len(s.written("create pods/eviction")) != 1 {
			t.Error("the Eviction API was not asked")
		}
	}
}
