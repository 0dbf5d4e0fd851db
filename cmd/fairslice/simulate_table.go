// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/scenario"
	"github.com/fairslice/fairslice/core/sim"
)

// printTables prints what people look for: decisions round by round, then the
// final states, who waits and why, and the shares.
func printTables(out io.Writer, report any) error {
	if trace, ok := report.(*traceReport); ok {
		return trace.print(out)
	}
	r := report.(*sim.Report)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	if r.ID != "" {
		fmt.Fprintf(w, "Scenario %s\n\n", r.ID)
	}
	fmt.Fprintln(w, "WHEN\tDECISION\tPOD\tNODE\tGPUS\tWHY")
	for i := range r.Rounds {
		printDecisions(w, i, &r.Rounds[i])
	}
	if len(r.Rounds) > 0 {
		printFinal(w, &r.Rounds[len(r.Rounds)-1])
	}
	for _, d := range r.Differences {
		fmt.Fprintf(w, "differs: %s%s\n", d.Text, map[bool]string{true: " (a tie)"}[d.Tie])
	}
	return w.Flush()
}

func when(i int, r *sim.Round) string {
	if r.AtSeconds != "" {
		return string(r.AtSeconds) + " s"
	}
	return fmt.Sprintf("round %d", i+1)
}

func printDecisions(w io.Writer, i int, r *sim.Round) {
	for _, happened := range r.Happened {
		fmt.Fprintf(w, "%s\t%s\t\t\t\t\n", when(i, r), happened)
	}
	for _, d := range r.Decisions {
		why := d.Reason
		if len(d.Awaits) > 0 {
			why = "waits for the room of " + strings.Join(d.Awaits, ", ")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", when(i, r), d.Kind, d.Pod, cmp.Or(d.Node, "-"), cmp.Or(strings.Join(d.GPUs, ","), "-"), why)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(w, "%s\tINVARIANT BROKEN: %s\n", when(i, r), v)
	}
}

func printFinal(w io.Writer, r *sim.Round) {
	fmt.Fprintln(w, "\nPOD\tSTATE\tNODE\tGPUS\tGRANTED")
	for _, name := range slices.Sorted(maps.Keys(r.Pods)) {
		p := r.Pods[name]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, p.State, cmp.Or(p.Node, "-"), cmp.Or(strings.Join(p.GPUs, ","), "-"), p.AcceptedGPUs)
	}
	if len(r.Waiting) > 0 {
		fmt.Fprintln(w, "\nWAITING\tQUEUE\tPOSITION\tPODS\tREASON")
	}
	for _, x := range r.Waiting {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", x.Workload, cmp.Or(x.Queue, "-"), x.Position, x.Pods, x.Reason)
	}
	if len(r.Queues) > 0 {
		fmt.Fprintln(w, "\nQUEUE\tPARENT\tRESOURCE\tFAIR SHARE\tALLOCATED\tREQUESTED")
	}
	for _, q := range r.Queues {
		for _, resource := range q.FairShare.Names() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", q.Name, cmp.Or(q.Parent, "-"), resource,
				quantity(q.FairShare, resource), quantity(q.Allocated, resource), quantity(q.Requested, resource))
		}
	}
}

// quantity writes GPUs, cores and GiB as people count them.
func quantity(l scenario.ResourceList, resource string) string {
	v, set := l[resource]
	switch {
	case !set:
		return "0"
	case v == amount.Unlimited:
		return "unlimited"
	case resource == "cpu", resource == "gpu", strings.HasPrefix(resource, "gpu."):
		return fmt.Sprintf("%g", float64(v)/1000)
	case resource == "memory":
		return fmt.Sprintf("%.1fGi", float64(v)/(1<<30))
	}
	return fmt.Sprint(int64(v))
}
