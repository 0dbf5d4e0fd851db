// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package grouping

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Outcomes of a look at a pod's owners.
const (
	lookedComplete = "complete" // all around the pod was read
	lookedHeld     = "held"     // the pod waits for an owner that is not read yet
	lookedPartial  = "partial"  // its time was up: treated by what is known
	lookedGone     = "gone"     // its owners are gone and have said all they will
	lookedForever  = "refused"  // what it names can never be read
)

// metrics count what the resolver does, and show what it holds.
type metrics struct {
	lookups *prometheus.CounterVec
	errors  *prometheus.CounterVec
}

func newMetrics() metrics {
	return metrics{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairslice_grouping_lookups_total", Help: "Looks at the owners of a pod, by outcome.",
		}, []string{"outcome"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairslice_grouping_errors_total", Help: "Times that a kind of owner could not be read, by kind.",
		}, []string{"kind"}),
	}
}

var (
	descCached = prometheus.NewDesc("fairslice_grouping_cached_objects", "Owners and groups held in memory, by kind.", []string{"kind"}, nil)
	descKinds  = prometheus.NewDesc("fairslice_grouping_kinds", "Kinds of owners that pods have, by whether they can be read.", []string{"state"}, nil)
	descHeld   = prometheus.NewDesc("fairslice_grouping_held_pods", "Pods that wait for their owners to be read.", nil, nil)
	descGroups = prometheus.NewDesc("fairslice_grouping_groups", "Gangs that were derived from owners.", nil, nil)
)

// Register makes a resolver's metrics known.
func (r *Resolver) Register(registry prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{r.metrics.lookups, r.metrics.errors, held{r}} {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("register the metrics of grouping: %w", err)
		}
	}
	return nil
}

// held shows what a resolver holds.
type held struct{ *Resolver }

// Describe implements prometheus.Collector.
func (h held) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descCached, descKinds, descHeld, descGroups} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (h held) Collect(out chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	states := map[kindState]int{}
	for kind, k := range h.kinds {
		states[k.state]++
		if k.store != nil {
			out <- prometheus.MustNewConstMetric(descCached, prometheus.GaugeValue, float64(len(k.store.ListKeys())), label(kind))
		}
	}
	for state, name := range map[kindState]string{opening: "opening", readable: "readable", refused: "refused"} {
		out <- prometheus.MustNewConstMetric(descKinds, prometheus.GaugeValue, float64(states[state]), name)
	}
	out <- prometheus.MustNewConstMetric(descHeld, prometheus.GaugeValue, float64(len(h.pending)))
	out <- prometheus.MustNewConstMetric(descGroups, prometheus.GaugeValue, float64(len(h.groups)))
}

// label is a kind as people write it: Job.batch.
func label(kind schema.GroupKind) string { return kind.String() }

// outcome is what a look at a pod's owners came to.
func outcome(found around, s *subject, left time.Duration) string {
	switch {
	case found.missing == "":
		return lookedComplete
	case found.forever:
		return lookedForever
	case s.complete:
		return lookedGone
	case left > 0:
		return lookedHeld
	}
	return lookedPartial
}
