// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// usageKey is the key of the ConfigMap's binary data.
	usageKey = "usage"
	// usagePatience is how long the first cycle waits for what earlier leaders
	// stored: without it, it would evict by shares that are not true.
	usagePatience = 10 * time.Second
)

// usageKeeper stores what the queues used in a ConfigMap, once in a while and at
// the end, and reads it back at the start. What it has not read it never
// overwrites, and every write names the version that it replaces: the last one
// of a leader that stops cannot undo the first one of the next.
type usageKeeper struct {
	options *Options
	metrics *metrics
	read    bool
	stored  *corev1.ConfigMap // as last read or written, nil if there is none
}

func newUsageKeeper(o *Options, m *metrics) *usageKeeper { return &usageKeeper{options: o, metrics: m} }

// start reads what is stored, and gives up after a while: run goes on trying.
func (u *usageKeeper) start(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, usagePatience)
	defer cancel()
	for delay := retryFirst; u.options.Ledger.CountsUsage() && ctx.Err() == nil && !u.read; delay = min(2*delay, retryMost) {
		if err := u.load(ctx); err == nil {
			return
		}
		pause(ctx, delay)
	}
}

// run stores the usage until ctx is done, and then once more.
func (u *usageKeeper) run(ctx context.Context) {
	if !u.options.Ledger.CountsUsage() {
		return
	}
	for failing := time.Duration(0); ctx.Err() == nil; {
		if err := u.step(ctx); err != nil {
			failing = min(max(2*failing, retryFirst), retryMost)
			pause(ctx, failing)
			continue
		}
		failing = 0
		pause(ctx, u.options.UsageEvery)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout/2)
	defer cancel()
	_ = u.save(last) // it logs what goes wrong
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// step reads what is stored if that is still to do, else stores.
func (u *usageKeeper) step(ctx context.Context) error {
	if !u.read {
		return u.load(ctx)
	}
	if !u.mayWrite() {
		return nil
	}
	err := u.save(ctx)
	if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		return err
	}
	// We lead: what somebody else wrote does not count.
	if _, err := u.fetch(ctx); err != nil {
		return err
	}
	return u.save(ctx)
}

// mayWrite is true while this process leads and knows the whole cluster.
func (u *usageKeeper) mayWrite() bool {
	return u.options.Ledger.Ready() == nil && u.options.Leads() == nil
}

func (u *usageKeeper) configMaps() typedcorev1.ConfigMapInterface {
	return u.options.Client.CoreV1().ConfigMaps(u.options.BacklogNamespace)
}

func (u *usageKeeper) name() string { return u.options.BacklogNamespace + "/" + u.options.UsageName }

// fetch reads the ConfigMap; nil if there is none.
func (u *usageKeeper) fetch(ctx context.Context) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	found, err := u.configMaps().Get(ctx, u.options.UsageName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		u.stored = nil
		return nil, nil
	case err != nil:
		return nil, u.failed("read", err)
	}
	u.stored = found
	return found, nil
}

// load takes in what is stored. What cannot be understood is reported once and
// replaced by the next write.
func (u *usageKeeper) load(ctx context.Context) error {
	found, err := u.fetch(ctx)
	if err != nil {
		return err
	}
	u.read = true
	if found == nil || len(found.BinaryData[usageKey]) == 0 {
		return nil
	}
	if err := u.options.Ledger.RestoreUsage(found.BinaryData[usageKey]); err != nil {
		u.options.Log.Warn("the queues' past usage starts empty: binaryData."+usageKey+" of ConfigMap "+u.name()+" cannot be used", "err", err)
	}
	return nil
}

// save stores the usage unless nothing has changed.
func (u *usageKeeper) save(ctx context.Context) error {
	if !u.read {
		return nil
	}
	data, err := u.options.Ledger.SaveUsage()
	if err != nil {
		return u.failed("encode what belongs into", err)
	}
	if u.stored != nil && bytes.Equal(u.stored.BinaryData[usageKey], data) {
		return nil
	}
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: u.options.UsageName}}
	write := func(ctx context.Context) (*corev1.ConfigMap, error) {
		return u.configMaps().Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
	}
	if u.stored != nil {
		next = u.stored.DeepCopy()
		write = func(ctx context.Context) (*corev1.ConfigMap, error) {
			return u.configMaps().Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
		}
	}
	next.BinaryData = map[string][]byte{usageKey: data}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	after, err := write(ctx)
	if err != nil {
		return u.failed("write", err)
	}
	u.stored = after
	return nil
}

func (u *usageKeeper) failed(verb string, err error) error {
	u.metrics.failed.WithLabelValues("usage").Inc()
	err = fmt.Errorf("%s ConfigMap %s: %w", verb, u.name(), err)
	u.options.Log.Warn("the queues' past usage could not be read or stored and is tried again", "err", err)
	return err
}
