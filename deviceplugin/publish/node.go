// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// NodeState is what a node should carry.
type NodeState struct {
	Inventory v1alpha1.Inventory
	// Isolation level of the node.
	Isolation string
	// Grown counts how often room on a GPU has grown; refused pods are woken up.
	Grown int64
}

// Node keeps one node's labels and annotations true.
type Node struct {
	Client kubernetes.Interface
	Name   string
	Log    *slog.Logger
	// State is asked whenever Changed fires.
	State   func() NodeState
	Changed func() <-chan struct{}
	// Refresh is how often the node is read, in case someone changed it.
	Refresh time.Duration
	// Settle is how long changes are collected, WakeEvery the least time between
	// two wake-ups.
	Settle, WakeEvery time.Duration

	labels, annotations map[string]string // as last written or read
	known               bool              // whether grown is set
	grown               int64             // the growth that was told
	lastWake            time.Time
}

// maxPause bounds the pause after a refusal of the API server.
const maxPause = 30 * time.Second

// Run writes until ctx is done.
func (n *Node) Run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		changed := n.Changed()
		err := n.step(ctx)
		wait := n.Refresh
		switch {
		case err == nil:
			failures = 0
			if n.grown != n.State().Grown {
				wait = n.WakeEvery // a wake-up was held back
			}
		case ctx.Err() == nil:
			failures++
			wait, changed = backoff(failures), nil
			n.labels = nil // read before the next write
			n.Log.Warn("cannot write labels and inventory on the node", "node", n.Name, "retry", wait, "error", err)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
			n.labels = nil // look whether someone changed it
		case <-changed:
			pause(ctx, n.Settle)
		}
		t.Stop()
	}
}

func backoff(failures int) time.Duration {
	return min(maxPause, 250*time.Millisecond<<min(failures, 10))
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// step writes what differs, at most one patch.
func (n *Node) step(ctx context.Context) error {
	if n.labels == nil {
		node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading node %s: %w", n.Name, err)
		}
		n.labels, n.annotations = copied(node.Labels), copied(node.Annotations)
	}
	state := n.State()
	labels, annotations, err := Keys(state)
	if err != nil {
		return err
	}
	if !n.known {
		n.known, n.grown = true, state.Grown // the first look is no growth
	}
	now := time.Now()
	wake := state.Grown != n.grown && now.Sub(n.lastWake) >= n.WakeEvery
	if wake {
		annotations[v1alpha1.AnnotationGPURoom] = strconv.FormatInt(now.UnixNano(), 36)
	}
	labels, annotations = different(n.labels, labels), different(n.annotations, annotations)
	if len(labels)+len(annotations) > 0 {
		if err := n.patch(ctx, labels, annotations); err != nil {
			return err
		}
		merge(n.labels, labels)
		merge(n.annotations, annotations)
	}
	if wake {
		n.lastWake, n.grown = now, state.Grown
	}
	return nil
}

func (n *Node) patch(ctx context.Context, labels, annotations map[string]string) error {
	meta := map[string]any{}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("encoding the patch of node %s: %w", n.Name, err)
	}
	if _, err := n.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("patching node %s: %w", n.Name, err)
	}
	return nil
}

const fieldManager = "fairslice-device-plugin"

// Keys are the labels and annotations that say a state.
func Keys(s NodeState) (labels, annotations map[string]string, err error) {
	inventory, err := s.Inventory.Encode()
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the inventory: %w", err)
	}
	labels = map[string]string{
		v1alpha1.LabelGPUCount:     strconv.Itoa(cards(s.Inventory)),
		v1alpha1.LabelGPUIsolation: s.Isolation,
	}
	for i, g := range s.Inventory.GPUs {
		if i == 0 {
			labels[v1alpha1.LabelGPUModel], labels[v1alpha1.LabelGPUMemory] = g.Model, strconv.FormatInt(g.MemoryMiB, 10)
			continue
		}
		if labels[v1alpha1.LabelGPUModel] != g.Model {
			labels[v1alpha1.LabelGPUModel] = "mixed"
		}
		if least, _ := strconv.ParseInt(labels[v1alpha1.LabelGPUMemory], 10, 64); g.MemoryMiB < least {
			labels[v1alpha1.LabelGPUMemory] = strconv.FormatInt(g.MemoryMiB, 10)
		}
	}
	return labels, map[string]string{v1alpha1.AnnotationGPUs: inventory, v1alpha1.LabelGPUIsolation: s.Isolation}, nil
}

// cards counts the physical GPUs.
func cards(v v1alpha1.Inventory) int {
	seen := map[string]bool{}
	for _, g := range v.GPUs {
		seen[cmp.Or(g.Card, g.UUID)] = true
	}
	return len(seen)
}

// LabelValue makes a model name a label value: "NVIDIA A100-SXM4-40GB" becomes
// "NVIDIA-A100-SXM4-40GB".
func LabelValue(model string) string {
	value := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		default:
			return '-'
		}
	}, model)
	const longest, edges = 63, "-_."
	value = strings.Trim(value[:min(len(value), longest)], edges)
	if value == "" {
		return "unknown"
	}
	return value
}

func copied(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	merge(out, m)
	return out
}

func merge(into, from map[string]string) {
	maps.Copy(into, from)
}

// different is the part of want that have lacks.
func different(have, want map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range want {
		if old, set := have[k]; !set || old != v {
			out[k] = v
		}
	}
	return out
}
