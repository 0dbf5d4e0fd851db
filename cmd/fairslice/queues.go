// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

func newQueuesCommand() *cobra.Command {
	var flags readerFlags
	var server serverFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "queues [QUEUE]",
		Short: "Show the queue tree with quota, limit, fair share and what is in use, in GPUs, or the waiting line of a queue",
		Long: `Show the queue tree with quota, limit, fair share and what is in use, in GPUs.

With the name of a queue, show what waits in it and in the queues below it, in
the order in which it will be served: that is read from the control plane
(--server).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				list, err := server.pendingOf(cmd.Context(), args[0], limit)
				if err != nil {
					return err
				}
				return writePending(cmd.OutOrStdout(), list, time.Now())
			}
			r, err := flags.reader()
			if err != nil {
				return err
			}
			queues, err := r.queues(cmd.Context())
			if err != nil {
				return err
			}
			return writeQueues(cmd.OutOrStdout(), queues)
		},
	}
	flags.add(cmd)
	server.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", defaultPending, "most workloads of a waiting line to show")
	return cmd
}

// writeQueues prints the tree, siblings by name, children indented below their
// parents. Queues whose parents lead nowhere come last, as roots of their own.
func writeQueues(w io.Writer, queues []v1alpha1.Queue) error {
	slices.SortFunc(queues, func(a, b v1alpha1.Queue) int { return strings.Compare(a.Name, b.Name) })
	children := map[string][]v1alpha1.Queue{}
	known := map[string]bool{}
	for _, q := range queues {
		known[q.Name] = true
	}
	for _, q := range queues {
		parent := q.Spec.Parent
		if !known[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], q)
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "QUEUE\tPRIORITY\tQUOTA\tLIMIT\tFAIR SHARE\tALLOCATED\tREQUESTED\tPENDING PODS")
	shown := map[string]bool{}
	var show func(q v1alpha1.Queue, depth int)
	show = func(q v1alpha1.Queue, depth int) {
		if shown[q.Name] {
			return
		}
		shown[q.Name] = true
		fmt.Fprintf(table, "%s%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d\n", strings.Repeat("  ", depth), q.Name, queuePriority(q),
			granted(q.Spec.Quota, "0"), granted(q.Spec.Limit, "-"), gpus(q.Status.FairShare), gpus(q.Status.Allocated),
			gpus(q.Status.Requested), q.Status.Pending.Pods)
		for _, c := range children[q.Name] {
			show(c, depth+1)
		}
	}
	for _, q := range children[""] {
		show(q, 0)
	}
	for _, q := range queues {
		show(q, 0)
	}
	return table.Flush()
}

func queuePriority(q v1alpha1.Queue) int32 {
	if q.Spec.Priority == nil {
		return v1alpha1.DefaultQueuePriority
	}
	return *q.Spec.Priority
}

func granted(amounts v1alpha1.ResourceAmounts, unset string) string {
	if a, set := amounts["gpu"]; set {
		return a.String()
	}
	return unset
}

func gpus(amounts map[string]resource.Quantity) string {
	q, set := amounts["gpu"]
	if !set {
		return "-"
	}
	text := fmt.Sprintf("%.3f", float64(q.MilliValue())/1000)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
