// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"errors"
	"testing"
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
