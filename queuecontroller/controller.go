// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/kube"
)

// Options of a Controller. Ledger, Client and Dynamic are required.
type Options struct {
	Ledger  *kube.Ledger
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Log     *slog.Logger
	// Registry takes the controller's metrics.
	Registry prometheus.Registerer
	// Recorder takes events; nil makes one that writes to the API server.
	Recorder record.EventRecorder
	// Evictor takes pods away; nil never evicts, and then the cycle plans no
	// evictions either.
	Evictor Evictor
	// Leads is nil while this process may decide and write; nil always may. It
	// is asked before every cycle and every write, since a process that was
	// paused does not notice by itself that others lead.
	Leads func() error
	// Config is the ledger's.
	Config kube.Config
	// Clock gives the time that delays and ages are counted from; nil is the
	// machine's.
	Clock func() time.Time

	// BacklogNamespace and BacklogName name the ConfigMap that lists the
	// queues with a backlog, the parameter of the gate policy.
	BacklogNamespace, BacklogName string
	// UsageName names the ConfigMap, in the same namespace, that keeps what the
	// queues used.
	UsageName string

	// ConsolidateEvery is the time between two scheduled consolidations, 0 for
	// none; with ConsolidateDryRun they only report what they would move.
	ConsolidateEvery  time.Duration
	ConsolidateDryRun bool

	Quiet       time.Duration // 3 ms without a change start a cycle
	Longest     time.Duration // 30 ms after the first change a cycle starts anyway
	Resync      time.Duration // 15 s, the longest time without a cycle
	StatusEvery time.Duration // 500 ms, the shortest time between two writes of status
	UsageEvery  time.Duration // 1 min between two writes of what the queues used
	Workers     int           // 16 writes at a time
}

func (o *Options) setDefaults() {
	defaultTo(&o.BacklogNamespace, "fairslice-system")
	defaultTo(&o.BacklogName, "fairslice-backlog")
	defaultTo(&o.UsageName, "fairslice-usage")
	defaultTo(&o.Quiet, 3*time.Millisecond)
	defaultTo(&o.Longest, 30*time.Millisecond)
	defaultTo(&o.Resync, 15*time.Second)
	defaultTo(&o.StatusEvery, 500*time.Millisecond)
	defaultTo(&o.UsageEvery, time.Minute)
	defaultTo(&o.Workers, 16)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Leads == nil {
		o.Leads = func() error { return nil }
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Controller runs cycles and writes their results.
type Controller struct {
	options Options
	ledger  *kube.Ledger
	log     *slog.Logger
	metrics *metrics
	events  *teller
	starts  *writer[string] // by pod UID
	sent    sentStarts
	reasons *reasonWriter
	status  *statusWriter
	backlog *backlogWriter
	evict   *evictions
	usage   *usageKeeper

	consolidation *consolidation
}

// New checks the options and returns a controller.
func New(o Options) (*Controller, error) {
	if o.Ledger == nil || o.Client == nil || o.Dynamic == nil {
		return nil, errors.New("queue controller needs a ledger and two clients")
	}
	o.setDefaults()
	c := &Controller{options: o, ledger: o.Ledger, log: o.Log, metrics: newMetrics(o.Registry)}
	c.events = newTeller(&c.options)
	c.starts = newWriter("starts", o.Workers, noLimit, c.start, &c.options, c.metrics)
	c.reasons = newReasonWriter(&c.options, c.metrics)
	c.status = newStatusWriter(&c.options, c.events, c.metrics)
	c.backlog = newBacklogWriter(&c.options)
	c.evict = newEvictions(&c.options, c.events, c.metrics)
	c.usage = newUsageKeeper(&c.options, c.metrics)
	c.consolidation = newConsolidation(&c.options, c.evict)
	return c, nil
}

// Run works until ctx is done. Only the leader may call it.
func (c *Controller) Run(ctx context.Context) error {
	c.usage.start(ctx)
	var wait sync.WaitGroup
	for _, part := range []func(context.Context){
		c.starts.run, c.reasons.run, c.events.run, c.evict.run, c.usage.run, c.consolidation.run, c.writeStatus,
	} {
		wait.Go(func() { part(ctx) })
	}
	c.cycles(ctx)
	wait.Wait()
	return nil
}

// cycles decides whenever something changed, and now and then without a
// change, for what time alone brings.
func (c *Controller) cycles(ctx context.Context) {
	resync := time.NewTimer(0)
	defer resync.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.ledger.Changed():
			if !c.settle(ctx) {
				return
			}
		case <-resync.C:
		}
		next := c.options.Resync
		if c.ledger.Ready() == nil && c.options.Leads() == nil {
			next = c.cycle()
		}
		resync.Reset(next)
	}
}

// settle waits until changes pause, so that pods which are created together
// are considered together. False when ctx is done.
func (c *Controller) settle(ctx context.Context) bool {
	longest := time.NewTimer(c.options.Longest)
	quiet := time.NewTimer(c.options.Quiet)
	defer longest.Stop()
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-c.ledger.Changed():
			quiet.Reset(c.options.Quiet)
		case <-quiet.C:
			return true
		case <-longest.C:
			return true
		}
	}
}

// cycle runs one cycle and hands its results to the writers. It returns how long
// the next one may wait.
func (c *Controller) cycle() time.Duration {
	var round kube.Round
	if c.options.Evictor == nil {
		round = c.ledger.Decide(cycle.Allocate)
	} else {
		round = c.ledger.Decide()
	}
	c.metrics.observe(round)
	fresh := c.sent.fresh(round.Starts, c.options.Clock())
	for _, s := range fresh {
		c.starts.add(s.Pod.UID)
	}
	c.evict.take(round.Plan.Evictions)
	if len(round.Starts)+len(round.Plan.Evictions)+len(round.Plan.Withdrawn) > 0 {
		c.log.Info("cycle", "starts", len(round.Starts), "evictions", len(round.Plan.Evictions),
			"withdrawn", len(round.Plan.Withdrawn), "waits", len(round.Plan.Waits), "took", round.Duration)
	}
	next := c.options.Resync
	if len(fresh) < len(round.Starts) {
		next = min(next, echo) // what the pods do not show by then is written again
	}
	if round.Next.IsZero() {
		return next
	}
	return min(next, max(c.options.Quiet, round.Next.Sub(c.options.Clock())))
}

// writeStatus brings status, conditions and the backlog up to date at a steady
// pace, whatever the number of cycles.
func (c *Controller) writeStatus(ctx context.Context) {
	tick := time.NewTicker(c.options.StatusEvery)
	defer tick.Stop()
	var seen uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.ledger.Ready() != nil || c.options.Leads() != nil {
			continue
		}
		version := c.ledger.Version()
		if version == seen && !c.status.behind() && !c.backlog.behind() && !c.reasons.behind() {
			continue
		}
		seen = version
		waiting := c.ledger.Waiting()
		queues := c.ledger.Queues()
		c.backlog.write(ctx, c.ledger.Backlog())
		c.status.write(ctx, queues, c.ledger.Groups())
		c.reasons.take(waiting)
		c.events.waiting(waiting)
		c.events.troubles(c.ledger.Troubles())
		c.metrics.account(queues, waiting, c.ledger.OpenPromises(), c.options.Config)
	}
}
