// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairslice/fairslice/deviceplugin/health"
)

// Metric descriptions; those of containers are in metrics_usage.go.
var (
	descHeld = prometheus.NewDesc("fairslice_gpu_devices_held", "Devices of a resource in use on a GPU.", []string{"UUID", "resource"}, nil)
	descRoom = prometheus.NewDesc("fairslice_gpu_devices_room", "Devices of a resource that a GPU can still give.", []string{"UUID", "resource"}, nil)

	descHealth   = prometheus.NewDesc("fairslice_gpu_health", "1 for the state that a GPU is in.", []string{"UUID", "state"}, nil)
	descCordoned = prometheus.NewDesc("fairslice_gpu_cordoned", "1 while the node's annotation cordons the GPU.", []string{"UUID"}, nil)

	descXIDs = prometheus.NewDesc("fairslice_gpu_xids_total", "Critical errors that the driver reported, ignored ones included.", []string{"UUID"}, nil)

	descMispredicted  = prometheus.NewDesc("fairslice_allocations_mispredicted_total", "Allocations that were another container's than guessed.", nil, nil)
	descDrifted       = prometheus.NewDesc("fairslice_allocations_drifted_total", "Allocations on other GPUs than planned.", nil, nil)
	descRefused       = prometheus.NewDesc("fairslice_allocations_refused_total", "Calls of Allocate that were refused.", nil, nil)
	descOrphaned      = prometheus.NewDesc("fairslice_allocations_orphaned_total", "Allocations whose pod the kubelet refused afterwards.", nil, nil)
	descCorrected     = prometheus.NewDesc("fairslice_assignments_corrected_total", "Annotations corrected to what the kubelet recorded.", nil, nil)
	descRegistrations = prometheus.NewDesc("fairslice_registrations_total", "Registrations with the kubelet.", []string{"resource"}, nil)
	descForeign       = prometheus.NewDesc("fairslice_foreign_plugin", "1 while another device plugin serves one of our resources.", nil, nil)
)

// Describe sends all descriptions.
func (a *agent) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(a, ch) }

// Collect reads the book and the state of the cards.
func (a *agent) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, u := range a.book.Uses() {
		for _, k := range a.names.Served() {
			gauge(descHeld, float64(u.Held[k]), u.UUID, a.names[k])
			gauge(descRoom, float64(u.Room[k]), u.UUID, a.names[k])
		}
		state, xids := a.vitals.state(u.UUID)
		for _, s := range []health.State{health.Healthy, health.Unhealthy, health.Probation} {
			gauge(descHealth, oneIf(s == state), u.UUID, s.String())
		}
		count(descXIDs, xids, u.UUID)
		_, cordoned := a.vitals.condition(u.UUID)
		gauge(descCordoned, oneIf(cordoned), u.UUID)
	}
	a.collectUsage(ch)
	c := a.book.Counters()
	count(descMispredicted, c.Mispredicted)
	count(descDrifted, c.Drifted)
	count(descRefused, c.Refused)
	count(descOrphaned, c.Orphaned)
	count(descCorrected, a.pods.Written())
	for _, k := range a.names.Served() {
		count(descRegistrations, a.registrations[k].Load(), a.names[k])
	}
	gauge(descForeign, oneIf(a.foreign.Load()))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// serveMetrics serves /metrics and /healthz until ctx is done.
func (a *agent) serveMetrics(ctx context.Context) error {
	if a.o.MetricsAddr == "" {
		return nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(a); err != nil {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.o.MetricsAddr)
	if err != nil {
		return fmt.Errorf("option metrics-addr: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
