// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fairslice/fairslice/kube"
)

// pendingOf reads the waiting line of a queue from the control plane.
func (f *serverFlags) pendingOf(ctx context.Context, queue string, limit int) (kube.Pending, error) {
	var list kube.Pending
	err := f.get(ctx, fmt.Sprintf("/queues/%s/pending?limit=%d", url.PathEscape(queue), limit), &list)
	return list, err
}

// writePending prints a waiting line, as of now.
func writePending(w io.Writer, list kube.Pending, now time.Time) error {
	if list.Total == 0 {
		_, err := fmt.Fprintf(w, "nothing waits in queue %s\n", list.Queue)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "POSITION\tQUEUE\tWORKLOAD\tPODS\tASKS\tWAITS\tREASON")
	for _, p := range list.Workloads {
		position := "-"
		if p.Position > 0 {
			position = fmt.Sprint(p.Position)
		}
		fmt.Fprintf(table, "%s\t%s\t%s/%s\t%s\t%s\t%s\t%s\n", position, p.Queue, p.Namespace, p.Workload,
			waitingPods(p), asked(p), now.Sub(p.Since).Round(time.Second), p.Reason.Message)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if more := list.Total - len(list.Workloads); more > 0 {
		_, err := fmt.Fprintf(w, "and %d more\n", more)
		return err
	}
	return nil
}

// waitingPods is how many pods wait, and of a gang how many have a place or do
// not exist.
func waitingPods(p kube.PendingWorkload) string {
	text := fmt.Sprintf("%d wait", len(p.Pods))
	if p.PodsPlaced > 0 {
		text += fmt.Sprintf(", %d placed", p.PodsPlaced)
	}
	if p.PodsMissing > 0 {
		text += fmt.Sprintf(", %d missing", p.PodsMissing)
	}
	return text
}

// asked lists what the waiting pods ask for, GPUs first.
func asked(p kube.PendingWorkload) string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(p.Asks), gpusFirst) {
		q := p.Asks[name]
		parts = append(parts, name+"="+q.String())
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ",")
}

func gpusFirst(a, b string) int {
	if gpu := strings.HasPrefix(a, "gpu"); gpu != strings.HasPrefix(b, "gpu") {
		if gpu {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

// lineOf says where in the waiting line a pod is.
func lineOf(list kube.Pending, namespace, pod string, now time.Time) string {
	for _, p := range list.Workloads {
		if p.Namespace != namespace || !slices.Contains(p.Pods, pod) {
			continue
		}
		since := fmt.Sprintf("waits for %s, asks %s", now.Sub(p.Since).Round(time.Second), asked(p))
		what := "it"
		if p.Gang {
			what = fmt.Sprintf("its gang %s (%s)", p.Workload, waitingPods(p))
		}
		if p.Position == 0 {
			return fmt.Sprintf("%s %s and has no position in queue %s", what, since, p.Queue)
		}
		return fmt.Sprintf("%s is number %d of queue %s, %s", what, p.Position, p.Queue, since)
	}
	return ""
}
