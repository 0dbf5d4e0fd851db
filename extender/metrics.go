// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package extender

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	seconds  *prometheus.HistogramVec
	barrier  prometheus.Histogram
	binds    *prometheus.CounterVec
	rejected prometheus.Counter
	panics   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (metrics, error) {
	m := metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairslice_extender_request_seconds", Help: "Time to answer a call of kube-scheduler, by verb.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
		}, []string{"verb"}),
		barrier: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairslice_extender_gang_wait_seconds", Help: "Time that a bind call waited for its gang's other members.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		binds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairslice_extender_binds_total", Help: "Bind calls by outcome.",
		}, []string{"outcome"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairslice_extender_rejected_requests_total", Help: "Calls whose body could not be understood.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairslice_extender_panics_total", Help: "Calls that ended in a panic; any is a bug.",
		}),
	}
	return m, errors.Join(r.Register(m.seconds), r.Register(m.barrier), r.Register(m.binds), r.Register(m.rejected), r.Register(m.panics))
}
