// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairslice/fairslice/kube"
)

// TestMetricsOfAGoneQueue are gone with it.
func TestMetricsOfAGoneQueue(t *testing.T) {
	s := newStand(t, nil)
	s.queue("a", 1)
	s.queue("b", 1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.control.metrics.waited)
	account := func() int {
		s.control.metrics.account(s.ledger.Queues(), nil, 0, kube.DefaultConfig())
		families, err := registry.Gather()
		if err != nil || len(families) == 0 {
			t.Fatal(families, err)
		}
		return len(families[0].GetMetric())
	}
	for _, queue := range []string{"a", "b"} {
		s.control.metrics.waited.WithLabelValues(queue).Observe(1)
	}
	if got := account(); got != 2 {
		t.Errorf("%d queues have a waiting time, want 2", got)
	}
	s.ledger.RemoveQueue("a")
	if got := account(); got != 1 {
		t.Errorf("%d queues have a waiting time after one is gone, want 1", got)
	}
}
