// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
)

// Delays between tries of a failed write.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 30 * time.Second
	// writeTimeout bounds one try, so that a hanging request holds up one
	// worker only, and not for long.
	writeTimeout = 10 * time.Second
)

const (
	noLimit = rate.Inf
	// conditionsPerSecond keeps reasons of a large backlog from crowding out
	// what lets pods start.
	conditionsPerSecond rate.Limit = 100
)

// writer makes writes one by one for each key, in parallel for many, until
// they succeed.
type writer[K comparable] struct {
	name    string
	workers int
	pace    *rate.Limiter
	queue   workqueue.TypedRateLimitingInterface[K]
	write   func(context.Context, K) error
	leads   func() error
	log     *slog.Logger
	metrics *metrics
}

func newWriter[K comparable](name string, workers int, pace rate.Limit, write func(context.Context, K) error, o *Options, m *metrics) *writer[K] {
	return &writer[K]{
		name: name, workers: workers, write: write, leads: o.Leads, log: o.Log, metrics: m,
		pace:  rate.NewLimiter(pace, workers),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[K](retryFirst, retryMost)),
	}
}

func (w *writer[K]) add(key K) { w.queue.Add(key) }

func (w *writer[K]) run(ctx context.Context) {
	var wait sync.WaitGroup
	for range w.workers {
		wait.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	wait.Wait()
}

func (w *writer[K]) next(ctx context.Context) bool {
	key, closed := w.queue.Get()
	if closed {
		return false
	}
	defer w.queue.Done(key)
	if w.pace.Wait(ctx) != nil {
		return false
	}
	if err := w.try(ctx, key); err != nil {
		w.metrics.failed.WithLabelValues(w.name).Inc()
		w.log.Warn("a write failed and is tried again", "kind", w.name, "err", err, "tries", w.queue.NumRequeues(key)+1)
		w.queue.AddRateLimited(key)
		return true
	}
	w.queue.Forget(key)
	return true
}

func (w *writer[K]) try(ctx context.Context, key K) error {
	if err := w.leads(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return w.write(ctx, key)
}
