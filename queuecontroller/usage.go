// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// usageKey is the key of the ConfigMap's binary data.
	usageKey = "usage"
	// usageMost is how many bytes of it are stored; the API server takes 1 MiB.
	usageMost = 1000 * 1000
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
	short   bool              // not all that was used fits
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
	data, err := unpack(found.BinaryData[usageKey])
	if err == nil {
		err = u.options.Ledger.RestoreUsage(data)
	}
	if err != nil {
		u.options.Log.Warn("the queues' past usage starts empty: binaryData."+usageKey+" of ConfigMap "+u.name()+" cannot be used", "err", err)
	}
	return nil
}

// save stores the usage unless nothing has changed.
func (u *usageKeeper) save(ctx context.Context) error {
	if !u.read {
		return nil
	}
	data, err := u.pack()
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

// pack returns the usage, compressed, of as many queues as a ConfigMap has room
// for.
func (u *usageKeeper) pack() ([]byte, error) {
	for most := math.MaxInt; ; {
		data, queues := u.options.Ledger.SaveUsage(most)
		var out bytes.Buffer
		packer := gzip.NewWriter(&out)
		_, err := packer.Write(data)
		if err := errors.Join(err, packer.Close()); err != nil {
			return nil, err
		}
		most = min(most, queues)
		if out.Len() <= usageMost || most == 0 {
			u.tell(most, queues)
			return out.Bytes(), nil
		}
		most = most * usageMost / out.Len() * 19 / 20 // those that used most take more room
	}
}

// tell writes one line for as long as not all that was used fits.
func (u *usageKeeper) tell(stored, queues int) {
	if stored < queues && !u.short {
		u.options.Log.Warn("the queues' past usage does not fit into ConfigMap "+u.name()+": only the queues that used most are stored", "stored", stored, "of", queues)
	}
	u.short = stored < queues
}

// unpack also takes what was stored uncompressed by earlier versions.
func unpack(stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, []byte{0x1f, 0x8b}) {
		return stored, nil
	}
	in, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

func (u *usageKeeper) failed(verb string, err error) error {
	u.metrics.failed.WithLabelValues("usage").Inc()
	err = fmt.Errorf("%s ConfigMap %s: %w", verb, u.name(), err)
	u.options.Log.Warn("the queues' past usage could not be read or stored and is tried again", "err", err)
	return err
}
