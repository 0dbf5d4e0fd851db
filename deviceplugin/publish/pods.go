// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/match"
)

// Pods writes corrected assignments.
type Pods struct {
	Client kubernetes.Interface
	Log    *slog.Logger
	// Corrections is asked whenever Changed fires.
	Corrections func() []match.Correction
	Changed     func() <-chan struct{}
	// Settle is how long changes are collected.
	Settle time.Duration

	written atomic.Int64
	tried   map[string]attempt // by pod UID
}

type attempt struct {
	value    string
	failures int
	next     time.Time
}

// Written counts the corrections that the API server took.
func (p *Pods) Written() int64 { return p.written.Load() }

// reread is when a correction is sent again though it was taken: the informer
// should have shown it long before.
const reread = time.Minute

// Run writes until ctx is done.
func (p *Pods) Run(ctx context.Context) {
	p.tried = map[string]attempt{}
	for ctx.Err() == nil {
		changed := p.Changed()
		next := p.step(ctx)
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-changed:
			pause(ctx, p.Settle)
		}
		t.Stop()
	}
}

// step sends what is due and returns when to look again.
func (p *Pods) step(ctx context.Context) time.Duration {
	wait, now := reread, time.Now()
	open := map[string]bool{}
	for _, c := range p.Corrections() {
		value, err := c.Assignment.Encode()
		if err != nil {
			p.Log.Error("cannot encode an assignment", "namespace", c.Namespace, "pod", c.Pod, "error", err)
			continue
		}
		open[c.PodUID] = true
		a := p.tried[c.PodUID]
		if a.value != value {
			a = attempt{value: value}
		}
		if due := a.next.Sub(now); due > 0 {
			wait = min(wait, due)
			continue
		}
		p.tried[c.PodUID] = p.send(ctx, c, a, now)
		wait = min(wait, p.tried[c.PodUID].next.Sub(now))
	}
	for uid := range p.tried {
		if !open[uid] {
			delete(p.tried, uid)
		}
	}
	return wait
}

func (p *Pods) send(ctx context.Context, c match.Correction, a attempt, now time.Time) attempt {
	// The UID in the patch keeps it from a younger pod of the same name: the API
	// server refuses to change one.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": c.PodUID, "annotations": map[string]string{v1alpha1.AnnotationGPUAssignment: a.value},
	}})
	if err == nil {
		_, err = p.Client.CoreV1().Pods(c.Namespace).Patch(ctx, c.Pod, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	}
	switch {
	case err == nil:
		p.written.Add(1)
		p.Log.Info("corrected a GPU assignment to what the kubelet recorded", "namespace", c.Namespace, "pod", c.Pod)
		a.failures, a.next = 0, now.Add(reread)
	case apierrors.IsNotFound(err):
		// The pod is gone; the informer will say.
		a.next = now.Add(reread)
	case apierrors.IsInvalid(err):
		// Its name belongs to another, or a policy refuses: the informer will say of
		// the one alone.
		a.next = now.Add(reread)
		p.Log.Warn("a correction of a GPU assignment was refused", "namespace", c.Namespace, "pod", c.Pod, "error", err)
	default:
		a.failures++
		a.next = now.Add(backoff(a.failures))
		p.Log.Warn("cannot correct a GPU assignment", "namespace", c.Namespace, "pod", c.Pod, "error", fmt.Errorf("patching the pod: %w", err))
	}
	return a
}
