// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairslice/fairslice/kube"
	"github.com/fairslice/fairslice/queuecontroller"
)

func newConsolidationCommand() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "consolidation",
		Short: "Show which pods would be moved now to bring free GPUs together, and what the last scheduled run did",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var report queuecontroller.Consolidation
			if err := server.get(cmd.Context(), "/consolidation", &report); err != nil {
				return err
			}
			return writeConsolidation(cmd.OutOrStdout(), report)
		},
	}
	server.add(cmd)
	return cmd
}

// writeConsolidation prints the schedule, the last run and what one would do now.
func writeConsolidation(w io.Writer, report queuecontroller.Consolidation) error {
	switch {
	case report.Every == "0s":
		fmt.Fprintln(w, "not on a schedule (--consolidate-every)")
	case report.DryRun:
		fmt.Fprintf(w, "every %s, only reported\n", report.Every)
	default:
		fmt.Fprintf(w, "every %s\n", report.Every)
	}
	if report.Last != nil {
		fmt.Fprintf(w, "\nlast run at %s\n", report.Last.At.Format(time.RFC3339))
		if err := writeMoves(w, *report.Last); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nnow it would do this")
	return writeMoves(w, report.Now)
}

func writeMoves(w io.Writer, run kube.Consolidation) error {
	if run.Postponed != "" {
		fmt.Fprintln(w, run.Postponed)
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if len(run.Moves) == 0 {
		fmt.Fprintln(table, "no moves")
	} else {
		fmt.Fprintln(table, "POD\tQUEUE\tFROM\tTO\tWHY")
	}
	for _, m := range run.Moves {
		_, why, _ := strings.Cut(m.Reason, "consolidation ")
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\t%s\n", m.Namespace, m.Pod, m.Queue, m.From, m.To, why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	table = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "GPU MODEL\tFREE\tWHOLE GPUS\tLARGEST BLOCK\tFREE NODES")
	for _, g := range run.GPUs {
		change := func(before, after int) string {
			if before == after {
				return fmt.Sprint(before)
			}
			return fmt.Sprintf("%d, then %d", before, after)
		}
		fmt.Fprintf(table, "%s\t%.2f\t%s\t%s\t%s\n", g.Model, float64(g.Before.MilliGPUs)/1000, change(g.Before.WholeGPUs, g.After.WholeGPUs),
			change(g.Before.LargestBlock, g.After.LargestBlock), change(g.Before.Nodes, g.After.Nodes))
	}
	return table.Flush()
}
