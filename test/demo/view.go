// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/test/stack"
)

// view is what the API server says at one moment.
type view struct {
	pods   map[string]corev1.Pod
	nodes  []corev1.Node
	queues []unstructured.Unstructured
}

func look(ctx context.Context, s *stack.Stack) (view, error) {
	v := view{pods: map[string]corev1.Pod{}}
	pods, err := s.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, err
	}
	for _, p := range pods.Items {
		v.pods[p.Name] = p
	}
	nodes, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, err
	}
	v.nodes = nodes.Items
	queues, err := s.Dynamic.Resource(stack.QueueResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, err
	}
	v.queues = queues.Items
	sort.Slice(v.nodes, func(i, j int) bool { return v.nodes[i].Name < v.nodes[j].Name })
	return v, nil
}

// holder is a pod's part of one GPU.
type holder struct {
	pod   string
	milli int64
}

// holders lists who holds what of each GPU, by node and UUID, from the
// assignments that were bound with the pods.
func (v view) holders() map[string][]holder {
	held := map[string][]holder{}
	for _, name := range sortedKeys(v.pods) {
		p := v.pods[name]
		text := p.Annotations[v1alpha1.AnnotationGPUAssignment]
		if text == "" {
			continue
		}
		a, err := v1alpha1.DecodeAssignment(text)
		if err != nil {
			continue
		}
		for _, c := range a.Containers {
			for _, g := range c.GPUs {
				held[a.Node+"/"+g.UUID] = append(held[a.Node+"/"+g.UUID], holder{name, g.MilliGPU})
			}
		}
	}
	return held
}

// table is the picture of the cluster: each GPU with its holders.
func (v view) table() string {
	var b strings.Builder
	held := v.holders()
	fmt.Fprintf(&b, "%-12s %-4s %-22s %-18s %s\n", "NODE", "GPU", "MODEL", "IN USE", "PODS")
	for _, n := range v.nodes {
		inventory, err := v1alpha1.DecodeInventory(n.Annotations[v1alpha1.AnnotationGPUs])
		if err != nil {
			fmt.Fprintf(&b, "%-12s %s\n", n.Name, "no GPUs published yet")
			continue
		}
		for i, g := range inventory.GPUs {
			name := n.Name
			if i > 0 {
				name = ""
			}
			var used int64
			var who []string
			for _, h := range held[n.Name+"/"+g.UUID] {
				used += h.milli
				who = append(who, fmt.Sprintf("%s %s", h.pod, percent(h.milli)))
			}
			fmt.Fprintf(&b, "%-12s %-4d %-22s %s %4s  %s\n", name, g.Index, g.Model, bar(used), percent(used), strings.Join(who, ", "))
		}
	}
	return b.String()
}

func (v view) queueTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-10s %6s %6s %11s %10s %8s\n", "QUEUE", "PARENT", "QUOTA", "LIMIT", "FAIR SHARE", "ALLOCATED", "PENDING")
	for _, q := range v.queues {
		field := func(path ...string) string {
			value, found, _ := unstructured.NestedFieldNoCopy(q.Object, path...)
			if !found {
				return "-"
			}
			return fmt.Sprint(value)
		}
		fmt.Fprintf(&b, "%-12s %-10s %6s %6s %11s %10s %8s\n", q.GetName(), field("spec", "parent"), field("spec", "quota", "gpu"),
			field("spec", "limit", "gpu"), field("status", "fairShare", "gpu"), field("status", "allocated", "gpu"), field("status", "pending", "pods"))
	}
	return b.String()
}

// state tells what became of a pod and, when it waits, why.
func (v view) state(name string) (state outcome, where, why string) {
	p, exists := v.pods[name]
	switch {
	case !exists:
		return "", "", ""
	case p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded:
		return runs, p.Spec.NodeName, ""
	case p.Spec.NodeName != "":
		return "", p.Spec.NodeName, "starting"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return waits, "", c.Message
		}
	}
	return "", "", "created"
}

func bar(milli int64) string {
	full := int(min(milli, 1000) / 100)
	return strings.Repeat("█", full) + strings.Repeat("░", 10-full)
}

func percent(milli int64) string { return fmt.Sprintf("%d%%", (milli+5)/10) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
