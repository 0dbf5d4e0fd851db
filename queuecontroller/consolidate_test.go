// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func ownedBy(owner string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
}

// pieces is a stand with a job on each of two nodes, half of which are free.
func pieces(t *testing.T, evictor Evictor) *stand {
	s := newStand(t, evictor)
	s.node("n1", 2)
	s.node("n2", 2)
	s.queue("q", 0)
	for _, n := range []string{"n1", "n2"} {
		s.pod("on-"+n, "q", 1, running(n), ownedBy(n))
	}
	s.control.cycle()
	return s
}

// outcome counts the runs of an outcome.
func (s *stand) outcome(outcome string) float64 {
	s.t.Helper()
	return gathered(s.t, s.control.consolidation.runs)["fairslice_consolidation_runs_total "+outcome]
}

// gathered are the values of a collector's gauges and counters, by name and labels.
func gathered(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetValue())
			}
			out[strings.Join(name, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// TestScheduledConsolidationMoves one job onto the other's node, once, to a place
// that is held for it.
func TestScheduledConsolidationMoves(t *testing.T) {
	evictor := &fakeEvictor{}
	s := pieces(t, evictor)
	s.control.consolidation.once()
	s.run(func() bool { return evictor.calls() > 0 })
	s.control.consolidation.once()
	if evictor.calls() != 1 || s.outcome("moved") != 1 || s.outcome("postponed") != 1 {
		t.Errorf("%d evictions, outcomes moved %v and postponed %v, want one each", evictor.calls(), s.outcome("moved"), s.outcome("postponed"))
	}
	gone := evictor.evicted[0]
	s.ledger.RemovePod("uid-" + gone)
	s.pod("successor", "q", 1, ownedBy(strings.TrimPrefix(gone, "on-")))
	s.control.cycle()
	view, _ := s.ledger.Lookup("uid-successor")
	if want := map[string]string{"on-n1": "n2", "on-n2": "n1"}[gone]; view.PlannedNode != want {
		t.Errorf("%s went and its successor is planned on %q, want %q", gone, view.PlannedNode, want)
	}
	s.control.consolidation.once()
	if s.outcome("nothing") != 1 {
		t.Error("a third run found something to do")
	}
}

// TestDryRunOnlyReports, and so does a controller that may not evict.
func TestDryRunOnlyReports(t *testing.T) {
	for name, evictor := range map[string]Evictor{"dry run": &fakeEvictor{}, "no evictor": nil} {
		s := pieces(t, evictor)
		s.control.consolidation.options.ConsolidateDryRun = evictor != nil
		s.control.consolidation.once()
		s.control.cycle()
		if _, victim := s.ledger.VictimOf("uid-on-n1"); victim {
			t.Errorf("%s: a victim was chosen", name)
		}
		report := s.control.Consolidation()
		if s.outcome("planned") != 1 || report.Last == nil || len(report.Last.Moves) != 1 || len(report.Now.Moves) != 1 || !report.DryRun {
			t.Errorf("%s: reported %+v", name, report)
		}
		gain := report.Now.GPUs[0]
		if gain.Before.LargestBlock != 1 || gain.After.LargestBlock != 2 || gain.Before.Nodes != 0 || gain.After.Nodes != 1 {
			t.Errorf("%s: the gain is %+v", name, gain)
		}
		got := gathered(t, s.control.consolidation)
		for metric, want := range map[string]float64{
			"fairslice_consolidation_moves":                      1,
			"fairslice_consolidation_largest_block_gpus  before": 1, "fairslice_consolidation_largest_block_gpus  after": 2,
			"fairslice_consolidation_whole_gpus  before": 2, "fairslice_consolidation_whole_gpus  after": 2,
			"fairslice_consolidation_free_nodes  before": 0, "fairslice_consolidation_free_nodes  after": 1,
		} {
			if value, there := got[metric]; !there || value != want {
				t.Errorf("%s: %s is %v, want %v; all are %v", name, metric, value, want, got)
			}
		}
	}
}

// TestScheduleRunsOnlyWhereSomebodyLeads, as often as it says.
func TestScheduleRunsOnlyWhereSomebodyLeads(t *testing.T) {
	evictor := &fakeEvictor{}
	s := pieces(t, evictor)
	s.control.consolidation.options.ConsolidateEvery = 5 * time.Millisecond
	s.run(func() bool { return evictor.calls() > 0 })
	follower := pieces(t, &fakeEvictor{})
	follower.control.consolidation.options.ConsolidateEvery = 5 * time.Millisecond
	follower.control.consolidation.options.Leads = func() error { return ErrForbidden }
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	follower.control.consolidation.run(ctx)
	if ran := gathered(t, follower.control.consolidation.runs); len(ran) != 0 {
		t.Errorf("a follower ran: %v", ran)
	}
}
