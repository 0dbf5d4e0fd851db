// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/fairslice/fairslice/kube"
)

// TestALeaderEndsItsWork before the process ends: it stores what the queues used.
func TestALeaderEndsItsWork(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	leader := &leadership{Ledger: kube.NewLedger(kube.DefaultConfig(), time.Now, log)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	work := func(ctx context.Context) error {
		cancel() // as a signal does
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond)
		close(ended)
		return nil
	}
	e := election{enabled: true, namespace: "fairslice-system", lease: time.Second}
	if err := e.run(ctx, fake.NewClientset(), leader, work, log); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("the process ends while its work goes on")
	}
}

// TestAStandbyEndsAtOnce: it has no work.
func TestAStandbyEndsAtOnce(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := election{enabled: true, namespace: "fairslice-system", lease: time.Second}
	began := time.Now()
	if err := e.run(ctx, fake.NewClientset(), &leadership{}, nil, log); err != nil || time.Since(began) > 4*time.Second {
		t.Errorf("a standby that is told to end takes %s: %v", time.Since(began), err)
	}
}
