// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/kube"
)

// metrics of the controller. Amounts are in the units that people write: GPUs,
// cores, bytes, pieces.
type metrics struct {
	cycleSeconds prometheus.Histogram
	placements   prometheus.Counter
	nominations  prometheus.Counter
	ungated      prometheus.Counter
	evicted      *prometheus.CounterVec
	failed       *prometheus.CounterVec
	waited       *prometheus.HistogramVec

	// mu guards what Collect reads: the accounts of the last status pass.
	mu       sync.Mutex
	queues   []kube.QueueView
	waiting  map[[2]string]int // queue, code
	promises int
	config   kube.Config
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		cycleSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairslice_cycle_duration_seconds", Help: "Time that one decision took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 3, 11),
		}),
		placements: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairslice_placements_total", Help: "Pods whose promise could be used at once, counted in every cycle that says so.",
		}),
		nominations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairslice_nominations_total", Help: "Pods whose planned node was written to their status.",
		}),
		ungated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairslice_gates_removed_total", Help: "Pods whose gate was removed.",
		}),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairslice_evictions_total", Help: "Pods evicted, by rule.",
		}, []string{"rule"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairslice_write_failures_total", Help: "Writes to the API server that failed and were tried again, by kind.",
		}, []string{"kind"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairslice_wait_duration_seconds", Help: "Time from a gated pod's creation to the removal of its gate, by queue.",
			Buckets: prometheus.ExponentialBuckets(0.05, 4, 11),
		}, []string{"queue"}),
	}
	registry.MustRegister(m.cycleSeconds, m.placements, m.nominations, m.ungated, m.evicted, m.failed, m.waited, m)
	return m
}

func (m *metrics) observe(round kube.Round) {
	m.cycleSeconds.Observe(round.Duration.Seconds())
	for _, p := range round.Plan.Placements {
		if len(p.Awaits) == 0 {
			m.placements.Inc()
		}
	}
}

// account takes in what the last status pass saw.
func (m *metrics) account(queues []kube.QueueView, waiting []kube.WaitView, promises int, config kube.Config) {
	counts := map[[2]string]int{}
	for _, w := range waiting {
		counts[[2]string{w.Queue, string(w.Reason.Code)}]++
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(queues)
	m.queues, m.waiting, m.promises, m.config = queues, counts, promises, config
}

// forget drops what is kept of queues that are gone.
func (m *metrics) forget(queues []kube.QueueView) {
	exists := make(map[string]bool, len(queues))
	for _, q := range queues {
		exists[q.Object.Name] = true
	}
	for _, q := range m.queues {
		if !exists[q.Object.Name] {
			m.waited.DeleteLabelValues(q.Object.Name)
		}
	}
}

var (
	perResource  = []string{"queue", "resource"}
	descQuota    = prometheus.NewDesc("fairslice_queue_quota", "Guaranteed amount of a queue; unlimited ones are left out.", perResource, nil)
	descLimit    = prometheus.NewDesc("fairslice_queue_limit", "Most that a queue may hold; unlimited ones are left out.", perResource, nil)
	descShare    = prometheus.NewDesc("fairslice_queue_fair_share", "What a queue is entitled to now.", perResource, nil)
	descHeld     = prometheus.NewDesc("fairslice_queue_allocated", "What a queue's pods hold or are promised.", perResource, nil)
	descAsked    = prometheus.NewDesc("fairslice_queue_requested", "What a queue's pods hold or wait for.", perResource, nil)
	descUsage    = prometheus.NewDesc("fairslice_queue_usage", "Time-decayed part of the cluster that a queue used, 0 to 1.", perResource, nil)
	descPending  = prometheus.NewDesc("fairslice_queue_pending_pods", "Pods of a queue that wait.", []string{"queue"}, nil)
	descWaiting  = prometheus.NewDesc("fairslice_waiting_pods", "Pods that wait, by queue and kind of reason.", []string{"queue", "code"}, nil)
	descPromises = prometheus.NewDesc("fairslice_promises_open", "Pods that are promised or assumed a place and not bound yet.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descQuota, descLimit, descShare, descHeld, descAsked, descUsage, descPending, descWaiting, descPromises} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		name := q.Object.Name
		spec := m.config.QueueAmounts(q.Object)
		for _, account := range []struct {
			desc *prometheus.Desc
			of   model.Quantities
		}{
			{descQuota, spec.Quota},
			{descLimit, spec.Limit},
			{descShare, q.Report.FairShare},
			{descHeld, q.Report.Allocated},
			{descAsked, q.Report.Requested},
		} {
			for _, resource := range sortedKeys(account.of) {
				if key, value, ok := m.config.ResourceQuantity(resource, account.of[resource]); ok {
					out <- prometheus.MustNewConstMetric(account.desc, prometheus.GaugeValue, value.AsApproximateFloat64(), name, key)
				}
			}
		}
		for _, resource := range sortedKeys(q.Usage) {
			if key, _, ok := m.config.ResourceQuantity(resource, q.Usage[resource]); ok {
				out <- prometheus.MustNewConstMetric(descUsage, prometheus.GaugeValue, float64(q.Usage[resource])/1e6, name, key)
			}
		}
		out <- prometheus.MustNewConstMetric(descPending, prometheus.GaugeValue, float64(q.Report.PendingPods), name)
	}
	for key, n := range m.waiting {
		out <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(n), key[0], key[1])
	}
	out <- prometheus.MustNewConstMetric(descPromises, prometheus.GaugeValue, float64(m.promises))
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
