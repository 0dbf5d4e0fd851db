// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

func newTopCommand() *cobra.Command {
	var flags readerFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show every GPU of the cluster with the pods that hold it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := flags.reader()
			if err != nil {
				return err
			}
			nodes, err := r.core.CoreV1().Nodes().List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list nodes: %w", err)
			}
			pods, err := r.core.CoreV1().Pods(metav1.NamespaceAll).List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list pods: %w", err)
			}
			return writeGPUs(cmd.OutOrStdout(), nodes.Items, pods.Items)
		},
	}
	flags.add(cmd)
	return cmd
}

// holding is a pod's part of one GPU.
type holding struct {
	pod   string
	milli int64
}

// writeGPUs prints a row for each GPU that the device plugin published, and a
// row for a node whose whole GPUs another plugin serves.
func writeGPUs(w io.Writer, nodes []corev1.Node, pods []corev1.Pod) error {
	held, whole := holdings(pods)
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tGPU\tMODEL\tMEMORY\tIN USE\tPODS")
	for _, n := range nodes {
		text, published := n.Annotations[v1alpha1.AnnotationGPUs]
		if !published {
			if q := n.Status.Allocatable[v1alpha1.ResourceWholeGPU]; !q.IsZero() {
				fmt.Fprintf(table, "%s\t%d GPUs\twhole GPUs only\t\t\t%s\n", n.Name, q.Value(), strings.Join(whole[n.Name], ", "))
			}
			continue
		}
		inventory, err := v1alpha1.DecodeInventory(text)
		if err != nil {
			fmt.Fprintf(table, "%s\t\t%v\n", n.Name, err)
			continue
		}
		for i, g := range inventory.GPUs {
			name := n.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintln(table, gpuRow(name, g, held[n.Name+"/"+g.UUID]))
		}
	}
	return table.Flush()
}

func gpuRow(node string, g v1alpha1.InventoryGPU, held []holding) string {
	var used int64
	var who []string
	model := g.Model
	if g.MIG != "" {
		model = strings.TrimSuffix(model, "-MIG-"+g.MIG) + " MIG " + g.MIG
	}
	for _, h := range held {
		if g.MIG != "" {
			h.milli = 1000 // an instance has one user; the assignment counts its part of the card
		}
		used += h.milli
		who = append(who, fmt.Sprintf("%s %s", h.pod, percent(h.milli)))
	}
	if !g.Healthy {
		who = append(who, "UNHEALTHY")
	}
	return fmt.Sprintf("%s\t%d\t%s\t%d MiB\t%s %4s\t%s", node, g.Index, model, g.MemoryMiB, bar(used), percent(used), strings.Join(who, ", "))
}

// holdings lists who holds what of each GPU ("<node>/<UUID>"), and who runs
// with whole GPUs on nodes where nobody says which.
func holdings(pods []corev1.Pod) (held map[string][]holding, whole map[string][]string) {
	held, whole = map[string][]holding{}, map[string][]string{}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for _, p := range pods {
		a, err := v1alpha1.DecodeAssignment(p.Annotations[v1alpha1.AnnotationGPUAssignment])
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if err != nil || ended || a.PodUID != string(p.UID) {
			continue
		}
		for _, c := range a.Containers {
			for _, g := range c.GPUs {
				if g.UUID == "" {
					whole[a.Node] = append(whole[a.Node], fmt.Sprintf("%s %s", p.Name, percent(g.MilliGPU)))
					continue
				}
				key := a.Node + "/" + g.UUID
				held[key] = append(held[key], holding{p.Name, g.MilliGPU})
			}
		}
	}
	return held, whole
}

func bar(milli int64) string {
	full := int(min(max(milli, 0), 1000) / 100)
	return strings.Repeat("█", full) + strings.Repeat("░", 10-full)
}

func percent(milli int64) string { return fmt.Sprintf("%d%%", (milli+5)/10) }
