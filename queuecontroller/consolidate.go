// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairslice/fairslice/kube"
)

// Consolidation is what GET /consolidation answers.
type Consolidation struct {
	// Every is the time between two scheduled runs, "0s" for none.
	Every  string `json:"every"`
	DryRun bool   `json:"dryRun"`
	// Last is the last scheduled run, nil before the first one of this leader.
	Last *kube.Consolidation `json:"last"`
	// Now is what a run would do now.
	Now kube.Consolidation `json:"now"`
}

// consolidation brings free GPUs together on a schedule, or only says how.
type consolidation struct {
	options *Options
	evict   *evictions
	runs    *prometheus.CounterVec

	mu   sync.Mutex
	last *kube.Consolidation
}

func newConsolidation(o *Options, evict *evictions) *consolidation {
	c := &consolidation{options: o, evict: evict, runs: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fairslice_consolidation_runs_total", Help: "Scheduled consolidations, by outcome.",
	}, []string{"outcome"})}
	o.Registry.MustRegister(c.runs, c)
	return c
}

// run consolidates until ctx is done.
func (c *consolidation) run(ctx context.Context) {
	if c.options.ConsolidateEvery <= 0 {
		return
	}
	tick := time.NewTicker(c.options.ConsolidateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.options.Ledger.Ready() == nil && c.options.Leads() == nil {
			c.once()
		}
	}
}

// dry is true where moves are only reported: also without an evictor, which
// would have to make them.
func (c *consolidation) dry() bool { return c.options.ConsolidateDryRun || c.options.Evictor == nil }

// once plans, and has the victims evicted unless it is a dry run.
func (c *consolidation) once() {
	report, victims := c.options.Ledger.Consolidate(c.dry())
	c.evict.take(victims)
	outcome := "moved"
	switch {
	case report.Postponed != "" && !c.dry():
		outcome = "postponed"
	case len(report.Moves) == 0:
		outcome = "nothing"
	case c.dry():
		outcome = "planned"
	}
	c.runs.WithLabelValues(outcome).Inc()
	c.mu.Lock()
	c.last = &report
	c.mu.Unlock()
	c.options.Log.Info("scheduled consolidation", "outcome", outcome, "moves", len(report.Moves), "postponed", report.Postponed, "took", report.Took)
	for _, m := range report.Moves {
		c.options.Log.Info("scheduled move", "dryRun", c.dry(), "pod", m.Namespace+"/"+m.Pod, "queue", m.Queue, "from", m.From, "to", m.To, "reason", m.Reason)
	}
}

// Consolidation returns the last scheduled run and what one would do now.
func (c *Controller) Consolidation() Consolidation {
	now, _ := c.ledger.Consolidate(true)
	c.consolidation.mu.Lock()
	defer c.consolidation.mu.Unlock()
	return Consolidation{
		Every: c.options.ConsolidateEvery.String(), DryRun: c.consolidation.dry(), Last: c.consolidation.last, Now: now,
	}
}

var (
	whenAndModel = []string{"model", "when"}
	descMoves    = prometheus.NewDesc("fairslice_consolidation_moves", "Pods that the last scheduled consolidation moved, or would have in a dry run.", nil, nil)
	descBlock    = prometheus.NewDesc("fairslice_consolidation_largest_block_gpus", "Most free whole GPUs of one node, before and after the last scheduled consolidation.", whenAndModel, nil)
	descWhole    = prometheus.NewDesc("fairslice_consolidation_whole_gpus", "GPUs with nothing on them, before and after the last scheduled consolidation.", whenAndModel, nil)
	descNodes    = prometheus.NewDesc("fairslice_consolidation_free_nodes", "Nodes with nothing on any GPU, before and after the last scheduled consolidation.", whenAndModel, nil)
)

// Describe implements prometheus.Collector.
func (c *consolidation) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descMoves, descBlock, descWhole, descNodes} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *consolidation) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return
	}
	out <- prometheus.MustNewConstMetric(descMoves, prometheus.GaugeValue, float64(len(c.last.Moves)))
	for _, g := range c.last.GPUs {
		for when, f := range map[string]kube.ConsolidationFree{"before": g.Before, "after": g.After} {
			out <- prometheus.MustNewConstMetric(descBlock, prometheus.GaugeValue, float64(f.LargestBlock), g.Model, when)
			out <- prometheus.MustNewConstMetric(descWhole, prometheus.GaugeValue, float64(f.WholeGPUs), g.Model, when)
			out <- prometheus.MustNewConstMetric(descNodes, prometheus.GaugeValue, float64(f.Nodes), g.Model, when)
		}
	}
}
