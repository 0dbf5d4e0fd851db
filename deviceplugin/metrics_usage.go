// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/usage"
)

// containerLabels are those of DCGM's exporter, with its values, so that both can be
// joined.
var containerLabels = []string{"namespace", "pod", "container", "UUID", "gpu", "modelName"}

func containerDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("fairslice_container_gpu_"+name, help, slices.Concat(containerLabels, more), nil)
}

// Metrics of a container on a GPU: one sample each, whatever its number of devices
// and processes (dcgm-exporter #587, #725).
var (
	descAsked     = containerDesc("asked_devices", "Devices of a resource that a container holds on a GPU: GPUs, hundredths or GiB.", "resource")
	descMilli     = containerDesc("share_milli", "Thousandths of a GPU that a container holds.")
	descLimit     = containerDesc("memory_limit_mib", "Memory that a container may use of a GPU.")
	descUsed      = containerDesc("memory_used_mib", "Memory of a GPU that a container uses, as the driver counts, contexts included; missing while the driver tells nothing.")
	descUnknown   = containerDesc("unknown_processes", "Processes of a container of which the driver does not tell how much of a GPU they use.")
	descCharged   = containerDesc("memory_charged_mib", "Memory of a GPU that the isolation layer charges to a container.")
	descRefusals  = containerDesc("memory_refusals_total", "Allocations that the isolation layer refused a container since it was given the GPU.")
	descThrottled = containerDesc("throttled_seconds_total", "Time that launches of a container were held back.")
	descOver      = containerDesc("over_limit_total", "Times that the watchdog found a container over its memory.")
	descIsolation = containerDesc("isolation", "1 for each isolation level that holds a container to its part of a GPU.", "level")

	descForeignMemory  = prometheus.NewDesc("fairslice_gpu_foreign_memory_mib", "Memory used by processes that were not given the GPU.", []string{"UUID"}, nil)
	descForeignUnknown = prometheus.NewDesc("fairslice_gpu_foreign_unknown_processes", "Processes that were not given the GPU, of which the driver does not tell how much they use.", []string{"UUID"}, nil)
	descWatched        = prometheus.NewDesc("fairslice_gpu_watched", "1 while the processes on a GPU are known.", []string{"UUID"}, nil)
	descOutcomes       = prometheus.NewDesc("fairslice_watchdog_actions_total", "What the watchdog has done.", []string{"outcome"}, nil)
)

// collectUsage sends what containers hold and use.
func (a *agent) collectUsage(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	v, held, charged := a.overseer, a.book.Allocations(), a.measured()
	v.mu.Lock()
	defer v.mu.Unlock()
	levels := enforce.Levels(a.layer)
	if v.enforces() {
		levels = append(slices.DeleteFunc(levels, func(l string) bool { return l == enforce.LevelNone }), enforce.LevelWatch)
	}
	for _, c := range a.cards {
		card, watched := v.seen[c.account.UUID]
		send(descWatched, prometheus.GaugeValue, oneIf(watched), c.account.UUID)
		if watched {
			bytes, unknown := card.ForeignBytes()
			send(descForeignMemory, prometheus.GaugeValue, float64(bytes>>20), c.account.UUID)
			send(descForeignUnknown, prometheus.GaugeValue, float64(unknown), c.account.UUID)
		}
		for _, s := range usage.Granted(c.account.UUID, held) {
			m := containerMetrics{send: send, labels: []string{
				s.Owner.Namespace, s.Owner.Pod, s.Owner.Container, s.UUID, strconv.Itoa(c.hardware.Index), c.hardware.Model,
			}}
			a.collectShare(m, s, levels)
			if watched {
				at := slices.IndexFunc(card.Samples, func(x usage.Sample) bool { return x.Owner == s.Owner })
				if at >= 0 {
					m.used(card.Samples[at])
				}
				m.count(descOver, float64(v.over[place{s.Owner, s.UUID}]))
			}
			if x, known := charged[place{s.Owner, s.UUID}]; known {
				m.gauge(descCharged, float64(x.UsedBytes>>20))
				m.count(descRefusals, float64(x.Refusals))
				m.count(descThrottled, x.Throttled.Seconds())
			}
		}
	}
	for _, outcome := range []string{outcomeKilled, outcomeEvicted, outcomeFailed} {
		send(descOutcomes, prometheus.CounterValue, float64(v.done[outcome]), outcome)
	}
}

// containerMetrics sends samples of one container on one card.
type containerMetrics struct {
	send   func(*prometheus.Desc, prometheus.ValueType, float64, ...string)
	labels []string
}

func (m containerMetrics) gauge(d *prometheus.Desc, v float64, more ...string) {
	m.send(d, prometheus.GaugeValue, v, slices.Concat(m.labels, more)...)
}

func (m containerMetrics) count(d *prometheus.Desc, v float64) {
	m.send(d, prometheus.CounterValue, v, m.labels...)
}

func (a *agent) collectShare(m containerMetrics, s usage.Sample, levels []string) {
	for _, asked := range s.Asked {
		m.gauge(descAsked, float64(asked.Units), a.names[asked.Kind])
	}
	m.gauge(descMilli, float64(s.MilliGPU))
	m.gauge(descLimit, float64(s.LimitBytes>>20))
	switch {
	case s.Instance:
		m.gauge(descIsolation, 1, enforce.LevelMIG)
	case !s.Whole:
		for _, level := range levels {
			m.gauge(descIsolation, 1, level)
		}
	}
}

// used sends nothing where the driver tells nothing: 0 would be a lie.
func (m containerMetrics) used(s usage.Sample) {
	bytes, unknown := s.UsedBytes()
	m.gauge(descUnknown, float64(unknown))
	if unknown < len(s.Processes) || unknown == 0 {
		m.gauge(descUsed, float64(bytes>>20))
	}
}

// measured sums the layer's accounts by container and card: a container may hold
// two of our resources.
func (a *agent) measured() map[place]enforce.Measured {
	meter, measures := a.layer.(enforce.Meter)
	if !measures {
		return nil
	}
	out := map[place]enforce.Measured{}
	for _, h := range a.book.Allocations() {
		if h.Owner.Pod == "" || !h.Confirmed {
			continue
		}
		accounts, err := meter.Measure(enforce.ContainerID(a.names[h.Kind], h.IDs))
		if err != nil {
			a.log.Debug("cannot read what a container uses", "error", fmt.Errorf("%s: %w", h.Owner, err))
			continue
		}
		for _, share := range h.Shares {
			for _, x := range accounts {
				if !enforce.SameUUID(x.UUID, share.GPU.UUID) {
					continue
				}
				p := place{h.Owner, share.GPU.UUID}
				sum := out[p]
				sum.UsedBytes, sum.Refusals, sum.Throttled = sum.UsedBytes+x.UsedBytes, sum.Refusals+x.Refusals, sum.Throttled+x.Throttled
				out[p] = sum
			}
		}
	}
	return out
}
