// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/kube"
)

// TestAFailedStatusIsForgottenWithItsObject: nothing is left to try again, so the
// passes over all queues and gangs end.
func TestAFailedStatusIsForgottenWithItsObject(t *testing.T) {
	s := newStand(t, nil)
	s.queue("q", 1)
	s.refuse = func(string) error { return errors.New("no") }
	pass := func() bool {
		s.control.status.write(t.Context(), s.ledger.Queues(), s.ledger.Groups())
		return s.control.status.behind()
	}
	if !pass() {
		t.Error("a status that could not be written is not tried again")
	}
	s.ledger.RemoveQueue("q")
	if pass() {
		t.Error("a status is tried again though its queue is gone")
	}
}

// TestGangStatusDoesNotStorm: changing numbers are written now and then, a new kind
// of reason and new counts at once, as in the conditions of pods.
func TestGangStatusDoesNotStorm(t *testing.T) {
	s := newStand(t, nil)
	g := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g", UID: "g1"}}
	written := func(members int, code explain.Code, message string) bool {
		view := kube.GroupView{Object: g, Phase: v1alpha1.PodGroupWaiting, Members: members, Reason: &explain.Reason{Code: code, Message: message}}
		s.control.status.write(t.Context(), nil, []kube.GroupView{view})
		if len(s.written("patch podgroups/status g")) == 0 {
			return false
		}
		g.Status = groupStatus(view)
		return true
	}
	for i, c := range []struct {
		after   time.Duration
		members int
		code    explain.Code
		message string
		want    bool
	}{
		{0, 2, explain.GangDoesNotFit, "largest free is 0", true},
		{time.Second, 2, explain.GangDoesNotFit, "largest free is 1", false},
		{time.Second, 2, explain.OverLimit, "4 of 4 in use", true},
		{time.Second, 2, explain.OverLimit, "3 of 4 in use", false},
		{time.Second, 3, explain.OverLimit, "3 of 4 in use", true},
		{2 * reworded, 3, explain.OverLimit, "2 of 4 in use", true},
		{time.Second, 3, explain.OverLimit, "", true},
	} {
		s.advance(c.after)
		if got := written(c.members, c.code, c.message); got != c.want {
			t.Errorf("%s: written is %v, want %v", fmt.Sprint(i, " ", c.message), got, c.want)
		}
	}
}
