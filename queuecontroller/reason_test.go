// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// waiting is a gated pod with a reason.
func waiting(name string, code explain.Code, message string) kube.WaitView {
	return kube.WaitView{
		Pod: kube.PodRef{Namespace: "default", Name: name, UID: "uid-" + name}, Queue: "q", Workload: "default/pod/" + name,
		Gated: true, Reason: explain.Reason{Code: code, Message: message},
	}
}

// TestReasonsDoNotStorm: changing numbers are written now and then, a new kind
// of reason at once, nothing while nothing changes (CASES R104).
func TestReasonsDoNotStorm(t *testing.T) {
	s := newStand(t, nil)
	r := s.control.reasons
	queued := func(views ...kube.WaitView) int {
		r.take(views)
		n := r.writes.queue.Len()
		for range n {
			key, _ := r.writes.queue.Get()
			r.writes.queue.Done(key)
		}
		return n
	}
	if n := queued(waiting("a", explain.OverLimit, "4 of 4 in use")); n != 1 {
		t.Errorf("first reason: %d writes, want 1", n)
	}
	for i := range 20 {
		s.advance(time.Second)
		if n := queued(waiting("a", explain.OverLimit, strings.Repeat("x", i))); n != 0 {
			t.Errorf("new numbers after %d s: %d writes, want 0", i+1, n)
		}
	}
	if n := queued(waiting("a", explain.NoNodeFits, "largest free is 0")); n != 1 {
		t.Errorf("new kind: %d writes, want 1", n)
	}
	s.advance(2 * reworded)
	if n := queued(waiting("a", explain.NoNodeFits, "largest free is 1")); n != 1 {
		t.Errorf("new numbers after two minutes: %d writes, want 1", n)
	}
	written := waiting("b", explain.OverLimit, "as it is")
	written.ConditionReason, written.ConditionMessage = conditionOf(written)[0], conditionOf(written)[1]
	if n := queued(written); n != 0 {
		t.Errorf("a condition that is right already: %d writes, want 0", n)
	}
}

// TestLonePodIsToldWhyItWaits: a pod is not told in its first moment, and then
// without waiting for another change in the cluster.
func TestLonePodIsToldWhyItWaits(t *testing.T) {
	s := newStand(t, nil)
	s.control.options.StatusEvery = 5 * time.Millisecond
	s.node("n1", 1)
	s.queue("a", 1)
	s.pod("lone", "a", 2, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
	began := time.Now()
	s.run(func() bool {
		if time.Since(began) > 200*time.Millisecond && s.now().Equal(time.Unix(1_800_000_000, 0)) {
			s.advance(2 * ungatedPatience)
		}
		return s.count("patch pods/status lone", "2 GPUs asked") > 0
	})
	if s.now().Equal(time.Unix(1_800_000_000, 0)) {
		t.Error("the pod was told at once")
	}
}

// TestWhatAnAutoscalerSees: only pods that wait for room are unschedulable.
func TestWhatAnAutoscalerSees(t *testing.T) {
	for code, want := range map[explain.Code]string{
		explain.NoNodeFits: "Unschedulable", explain.GangDoesNotFit: "Unschedulable", explain.TopologyDoesNotFit: "Unschedulable",
		explain.OverLimit: "SchedulingGated", explain.NonPreemptibleOverQuota: "SchedulingGated",
		explain.WaitingForVictims: "SchedulingGated", explain.InvalidRequest: "SchedulingGated", explain.QueueDoesNotExist: "SchedulingGated",
	} {
		if got := conditionOf(waiting("a", code, "m"))[0]; got != want {
			t.Errorf("%s: condition reason is %s, want %s", code, got, want)
		}
	}
}

// TestConditionOfAGatedPod writes what the ledger says.
func TestConditionOfAGatedPod(t *testing.T) {
	s := newStand(t, nil)
	s.node("n1", 1)
	s.queue("q", 1)
	s.pod("big", "q", 2)
	s.run(func() bool { return s.count("patch pods/status big", `"type":"PodScheduled"`) > 0 })
	got := s.written("patch pods/status big")
	if len(got) != 1 || !strings.Contains(got[0], `"reason":"Unschedulable"`) || !strings.Contains(got[0], `"uid":"uid-big"`) {
		t.Errorf("written %q, want one condition", got)
	}
}

// TestOneEventForOneReason: a workload is told once why it waits, a gang as a
// whole, and again when the kind changes, but not more often than every five
// minutes.
func TestOneEventForOneReason(t *testing.T) {
	s := newStand(t, nil)
	tell := s.control.events
	told := func(views ...kube.WaitView) int {
		tell.waiting(views)
		n := len(s.events.Events)
		for range n {
			<-s.events.Events
		}
		return n
	}
	gang := []kube.WaitView{waiting("a", explain.GangDoesNotFit, "m"), waiting("b", explain.GangDoesNotFit, "m")}
	for i := range gang {
		gang[i].Workload, gang[i].Group = "default/g", "g"
	}
	if n := told(gang...); n != 1 {
		t.Errorf("a gang of two is told %d times, want once", n)
	}
	for range 100 {
		s.advance(time.Second)
		if n := told(gang...); n != 0 {
			t.Fatalf("told again without a change")
		}
	}
	gang[0].Reason.Code, gang[1].Reason.Code = explain.OverLimit, explain.OverLimit
	if n := told(gang...); n != 0 {
		t.Errorf("a new kind within five minutes is told %d times, want 0", n)
	}
	s.advance(tellAgain)
	if n := told(gang...); n != 1 {
		t.Errorf("a new kind after five minutes is told %d times, want once", n)
	}
	ungated := waiting("c", explain.OverLimit, "m")
	ungated.Gated = false
	if n := told(ungated); n != 0 {
		t.Errorf("kube-scheduler's pod is told %d times by us, want 0", n)
	}
}
