// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairslice/fairslice/kube"
)

// newPacedStand is a stand whose configuration is changed.
func newPacedStand(t *testing.T, evictor Evictor, change func(*kube.Config)) *stand {
	s := newStand(t, evictor)
	config := kube.DefaultConfig()
	change(&config)
	s.ledger = kube.NewLedger(config, s.now, slog.New(slog.DiscardHandler))
	var err error
	s.control, err = New(Options{
		Ledger: s.ledger, Client: s.client, Dynamic: s.dynamic, Log: slog.New(slog.DiscardHandler), Clock: s.now,
		Registry: prometheus.NewRegistry(), Recorder: s.events, Evictor: evictor, Config: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestNextCycleComesInTime: where a workload only waits for a time, the next
// cycle does not wait for longer.
func TestNextCycleComesInTime(t *testing.T) {
	evictor := &fakeEvictor{}
	s := newPacedStand(t, evictor, func(c *kube.Config) { c.PreemptionDelay = 3 * time.Second })
	s.node("n1", 1)
	s.queue("a", 1)
	s.queue("b", 0)
	s.pod("victim", "b", 1, running("n1"))
	if got := s.control.cycle(); got != s.control.options.Resync {
		t.Errorf("the next cycle comes in %s though nobody waits", got)
	}
	s.pod("claimant", "a", 1)
	s.advance(time.Second)
	if got := s.control.cycle(); got != 2*time.Second {
		t.Errorf("the next cycle comes in %s, want the 2s that the claimant still waits", got)
	}
	if _, victim := s.ledger.VictimOf("uid-victim"); victim {
		t.Error("a victim was chosen before its time")
	}
	s.advance(2 * time.Second)
	s.control.cycle()
	if _, victim := s.ledger.VictimOf("uid-victim"); !victim {
		t.Error("no victim was chosen in time")
	}
}

// TestPaceOfEvictions: the API server is asked for no more evictions than a
// minute allows, and for the others later.
func TestPaceOfEvictions(t *testing.T) {
	evictor := &fakeEvictor{}
	s := newPacedStand(t, evictor, func(c *kube.Config) { c.EvictionsPerMinute = 1 })
	s.node("n1", 2)
	s.queue("a", 2)
	s.queue("b", 0)
	for _, name := range []string{"1", "2"} {
		s.pod("victim"+name, "b", 1, running("n1"))
		s.pod("claimant"+name, "a", 1)
	}
	s.run(func() bool { return evictor.calls() > 0 })
	if evictor.calls() != 1 {
		t.Fatalf("%d evictions, want 1", evictor.calls())
	}
	if got := s.control.cycle(); got > s.control.options.Resync {
		t.Errorf("the next cycle comes in %s", got)
	}
	if evictor.calls() != 1 {
		t.Errorf("%d evictions within the minute", evictor.calls())
	}
	s.advance(time.Minute)
	s.control.cycle()
	chosen := 0
	for _, uid := range []string{"uid-victim1", "uid-victim2"} {
		if _, victim := s.ledger.VictimOf(uid); victim {
			chosen++
		}
	}
	if chosen != 2 {
		t.Errorf("%d victims are chosen after a minute, want both", chosen)
	}
}
