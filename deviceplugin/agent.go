// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
	"github.com/fairslice/fairslice/deviceplugin/kubelet"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/pool"
	"github.com/fairslice/fairslice/deviceplugin/publish"
	"github.com/fairslice/fairslice/deviceplugin/usage"
)

// askTimeout bounds a call of the kubelet's PodResources.
const askTimeout = 5 * time.Second

// agent is the running device plugin.
type agent struct {
	o        Options
	log      *slog.Logger
	names    match.Names
	cards    []card
	pool     *pool.Pool // to tell IDs apart; the account is the book's
	book     *match.Book
	layer    enforce.Layer
	declared declarations
	// background is what the layer needs to have running.
	background []func(context.Context)
	vitals     *vitals
	resources  *kubelet.PodResources
	pods       *publish.Pods
	events     record.EventRecorder
	client     kubernetes.Interface
	// directory tells containers by their cgroups, overseer who uses which card.
	directory *usage.Directory
	overseer  *overseer
	sizing    sizing
	// misread is what was told last about the node's annotation.
	misread string
	// registrations by resource kind.
	registrations []atomic.Int64
	// present is what the driver listed at the start.
	present map[string]bool
	// foreign is true while another plugin serves one of our resources.
	foreign atomic.Bool
}

func records(s kubelet.State) []match.Record {
	out := make([]match.Record, 0, len(s.Held))
	for _, h := range s.Held {
		out = append(out, match.Record{
			Owner:    match.Owner{PodUID: h.PodUID, Namespace: h.Namespace, Pod: h.Pod, Container: h.Container},
			Resource: h.Resource, IDs: h.IDs,
		})
	}
	return out
}

// settle is called while the kubelet waits for an answer: then its checkpoint is
// complete for all earlier ones.
func (a *agent) settle() error { return a.syncCheckpoint(true) }

func (a *agent) syncCheckpoint(settled bool) error {
	s, err := kubelet.ReadCheckpoint(a.o.PluginDir)
	if err != nil {
		return err
	}
	a.book.Sync(records(s), match.Source{Complete: true, Settled: settled}, time.Now())
	return nil
}

// compare brings the book up to the kubelet's records, from whichever source
// there is.
func (a *agent) compare(ctx context.Context) error {
	missing := a.syncCheckpoint(false)
	if missing == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := a.resources.List(ctx)
	if err != nil {
		return errors.Join(missing, err)
	}
	a.book.Sync(records(s), match.Source{}, time.Now())
	return nil
}

// reconcile compares with the kubelet now and then, and soon after an allocation.
func (a *agent) reconcile(ctx context.Context) {
	silent := false
	for ctx.Err() == nil {
		changed := a.book.Changed()
		err := a.compare(ctx)
		if err != nil && !silent && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
			a.log.Warn("cannot compare with the kubelet's records", "error", err)
		}
		silent = err != nil
		a.findForeign(ctx)
		if err == nil { // else nobody knows who has ended
			if err := a.layer.Keep(a.containerIDs()); err != nil {
				a.log.Warn("cannot clear away the limits of ended containers", "error", err)
			}
		}
		t := time.NewTimer(a.o.ReconcileEvery)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-changed:
			// The kubelet records a container after our answer.
			settle := time.NewTimer(settleTime)
			select {
			case <-ctx.Done():
			case <-settle.C:
			}
			settle.Stop()
		}
		t.Stop()
	}
}

// settleTime is how long changes are collected before they are looked at.
const settleTime = 200 * time.Millisecond

func (a *agent) containerIDs() map[string]bool {
	out := map[string]bool{}
	for _, h := range a.book.Allocations() {
		out[enforce.ContainerID(a.names[h.Kind], h.IDs)] = true
	}
	return out
}

// findForeign reports another plugin that took over one of our resources while we
// run. The kubelet follows the one that registered last; all that we can do is say so.
func (a *agent) findForeign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	known, err := a.resources.Devices(ctx)
	if err != nil {
		return
	}
	found := false
	for _, k := range a.names.Served() {
		if id := foreignDevice(known[a.names[k]], k, a.pool); id != "" {
			found = true
			if !a.foreign.Load() {
				a.log.Error("another device plugin has taken over a resource on this node: remove one of the two", "resource", a.names[k], "device", id)
			}
		}
	}
	a.foreign.Store(found)
}

// identify finds the owner of devices whose container is about to start.
func (a *agent) identify(ctx context.Context, k pool.Kind, ids []string) (match.Owner, bool) {
	if a.syncCheckpoint(false) == nil {
		if owner, known := a.ownerOf(k, ids); known {
			return owner, true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := a.resources.List(ctx)
	if err != nil {
		a.log.Warn("cannot ask the kubelet whose devices it starts a container with", "error", err)
		return match.Owner{}, false
	}
	a.book.Sync(records(s), match.Source{}, time.Now())
	return a.ownerOf(k, ids)
}

// ownerOf reads the book's confirmed holdings. A plain init container and its
// successor may hold the same devices; they are of one pod.
func (a *agent) ownerOf(k pool.Kind, ids []string) (match.Owner, bool) {
	for _, h := range a.book.Allocations() {
		if h.Confirmed && h.Kind == k && slices.Equal(h.IDs, ids) {
			return h.Owner, true
		}
	}
	return match.Owner{}, false
}

// nodeState is what the node should say.
func (a *agent) nodeState() publish.NodeState {
	return publish.NodeState{
		Inventory: inventory(a.cards, a.names, a.vitals.condition), Isolation: a.isolation(), Grown: a.book.Grown(),
	}
}
