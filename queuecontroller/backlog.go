// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package queuecontroller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// backlogLinger keeps a queue listed for a while after its last pod was
// placed, so that a queue which is busy does not flap.
const backlogLinger = 10 * time.Second

// backlogWriter keeps the ConfigMap whose keys are the queues that pods wait
// in. The admission policy gates new pods of these queues alone.
type backlogWriter struct {
	options *Options
	// lastSeen is when each listed queue last had a backlog.
	lastSeen map[string]time.Time
	// written are the keys in the API server, nil while unknown.
	written map[string]bool
	retryAt time.Time
	failed  time.Duration
}

func newBacklogWriter(o *Options) *backlogWriter {
	return &backlogWriter{options: o, lastSeen: map[string]time.Time{}}
}

// write lists the queues. A failed write is tried again with growing delays.
func (b *backlogWriter) write(ctx context.Context, queues []string) {
	now := b.options.Clock()
	for _, q := range queues {
		// An annotation may name a queue by anything, and one key that is none
		// would keep all others from being written.
		if len(validation.IsConfigMapKey(q)) == 0 {
			b.lastSeen[q] = now
		}
	}
	maps.DeleteFunc(b.lastSeen, func(_ string, seen time.Time) bool { return now.Sub(seen) > backlogLinger })
	if now.Before(b.retryAt) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := b.bring(ctx); err != nil {
		b.failed = min(max(2*b.failed, retryFirst), retryMost)
		b.retryAt = now.Add(b.failed)
		b.options.Log.Warn("the list of queues with a backlog could not be written", "err", err)
		return
	}
	b.failed = 0
}

// behind is true while the list is not what it should be, or will not be when
// time has passed.
func (b *backlogWriter) behind() bool {
	return b.failed > 0 || b.written == nil || len(b.lastSeen) > 0
}

// bring makes the ConfigMap's keys those of lastSeen.
func (b *backlogWriter) bring(ctx context.Context) error {
	client := b.options.Client.CoreV1().ConfigMaps(b.options.BacklogNamespace)
	name := b.options.BacklogName
	if b.written == nil {
		found, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			if _, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create ConfigMap %s/%s: %w", b.options.BacklogNamespace, name, err)
			}
		case err != nil:
			return fmt.Errorf("read ConfigMap %s/%s: %w", b.options.BacklogNamespace, name, err)
		}
		b.written = map[string]bool{}
		for key := range found.Data {
			b.written[key] = true
		}
	}
	change := object{}
	for q := range b.lastSeen {
		if !b.written[q] {
			change[q] = "backlog"
		}
	}
	for q := range b.written {
		if _, listed := b.lastSeen[q]; !listed {
			change[q] = nil
		}
	}
	if len(change) == 0 {
		return nil
	}
	body, err := json.Marshal(object{"data": change})
	if err != nil {
		return err
	}
	after, err := client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		b.written = nil
		return fmt.Errorf("patch ConfigMap %s/%s: %w", b.options.BacklogNamespace, name, err)
	}
	b.written = map[string]bool{}
	for key := range after.Data {
		b.written[key] = true
	}
	return nil
}
