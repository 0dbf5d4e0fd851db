// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

func newWhyCommand() *cobra.Command {
	var flags readerFlags
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "why POD",
		Short: "Say in one sentence why a pod waits, or where it runs and what it holds",
		Long: `Say in one sentence why a pod waits, or where it runs and what it holds.

With --server also where in its queue's waiting line it is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.reader()
			if err != nil {
				return err
			}
			p, err := r.core.CoreV1().Pods(r.namespace).Get(cmd.Context(), args[0], metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return fmt.Errorf("pod %s/%s does not exist", r.namespace, args[0])
			}
			if err != nil {
				return err
			}
			line, err := server.lineOf(cmd.Context(), p)
			if err != nil {
				return err
			}
			return writeWhy(cmd.OutOrStdout(), p, line)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "namespace of the pod; default that of the context")
	server.add(cmd)
	return cmd
}

// writeWhy prints a sentence about the pod and, if it is known, one about its
// place in the waiting line.
func writeWhy(w io.Writer, p *corev1.Pod, line string) error {
	_, err := fmt.Fprintf(w, "pod %s/%s %s\n", p.Namespace, p.Name, whereabouts(p))
	if err == nil && line != "" {
		_, err = fmt.Fprintln(w, line)
	}
	return err
}

// lineOf says where in the waiting line of its queue the pod is, "" if it does
// not wait, names no queue or the control plane is not asked.
func (f *serverFlags) lineOf(ctx context.Context, p *corev1.Pod) (string, error) {
	queue := p.Labels[v1alpha1.LabelQueue]
	if f.url == "" || queue == "" || p.Spec.NodeName != "" {
		return "", nil
	}
	list, err := f.pendingOf(ctx, queue, mostPending)
	if err != nil {
		return "", err
	}
	return lineOf(list, p.Namespace, p.Name, time.Now()), nil
}

// whereabouts is the end of a sentence about the pod.
func whereabouts(p *corev1.Pod) string {
	switch {
	case p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
		return "has ended: " + string(p.Status.Phase)
	case p.Spec.NodeName != "":
		return fmt.Sprintf("is on node %s%s", p.Spec.NodeName, holds(p))
	}
	// Without the label its queue is that of its owners, its namespace or the default.
	waits := "waits"
	if name := p.Labels[v1alpha1.LabelQueue]; name != "" {
		waits = "waits in queue " + name
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.PodConditionWaiting && c.Status == corev1.ConditionTrue {
			return waits + ": " + c.Message
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return waits + ": " + c.Message
		}
	}
	if p.Status.NominatedNodeName != "" {
		return fmt.Sprintf("has its place on node %s and is about to be bound", p.Status.NominatedNodeName)
	}
	return waits + " and has not been looked at yet"
}

func holds(p *corev1.Pod) string {
	a, err := v1alpha1.DecodeAssignment(p.Annotations[v1alpha1.AnnotationGPUAssignment])
	if err != nil {
		return ""
	}
	var parts []string
	for _, c := range a.Containers {
		for _, g := range c.GPUs {
			gpu := "a GPU of the kubelet's choice"
			if g.UUID != "" {
				gpu = g.UUID
			}
			parts = append(parts, fmt.Sprintf("container %s holds %s (%d MiB) of %s", c.Name, percent(g.MilliGPU), g.MemoryMiB, gpu))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}
