// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairslice/fairslice/core/cycle"
)

// Consolidation is a plan of moves that brings free GPUs together for nobody in
// particular, with what it gains.
type Consolidation struct {
	At time.Time `json:"at"`
	// DryRun plans were only reported.
	DryRun bool `json:"dryRun"`
	// Postponed says why nothing was planned, "" if it was.
	Postponed string              `json:"postponed,omitempty"`
	Moves     []ConsolidationMove `json:"moves"`
	// GPUs by model, as they are and as they are once all have moved.
	GPUs []ConsolidationGPUs `json:"gpus"`
	// Took is how long the plan took, in seconds.
	Took float64 `json:"tookSeconds"`
}

// ConsolidationMove is one pod's.
type ConsolidationMove struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       string    `json:"uid"`
	Queue     string    `json:"queue"`
	From      string    `json:"from"`
	To        string    `json:"to"`
	FromGPUs  []DumpUse `json:"fromGPUs"`
	ToGPUs    []DumpUse `json:"toGPUs"`
	Reason    string    `json:"reason"`
}

// ConsolidationGPUs is what is free of one model on nodes that take pods.
type ConsolidationGPUs struct {
	Model  string            `json:"model"`
	Before ConsolidationFree `json:"before"`
	After  ConsolidationFree `json:"after"`
}

// ConsolidationFree counts what is free: thousandths of GPUs in all, GPUs with
// nothing on them, the most of these on one node, and nodes with nothing on any.
type ConsolidationFree struct {
	MilliGPUs    int64 `json:"milliGPUs"`
	WholeGPUs    int   `json:"wholeGPUs"`
	LargestBlock int   `json:"largestBlock"`
	Nodes        int   `json:"nodes"`
}

// Consolidate plans moves on the cluster as it is now and, unless dryRun, records
// them: the new places are held, and the victims are returned to be evicted. While
// moves of an earlier plan are under way nothing is planned.
func (l *Ledger) Consolidate(dryRun bool) (Consolidation, []cycle.Eviction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := l.clock()
	out := Consolidation{At: began.UTC(), DryRun: dryRun, Moves: []ConsolidationMove{}, GPUs: []ConsolidationGPUs{}}
	l.prepare(began.UnixNano())
	if out.Postponed = l.underWay(); out.Postponed != "" && !dryRun {
		return out, nil
	}
	plan := cycle.Compact(l.cluster)
	for _, ev := range plan.Moves {
		e := l.pods[ev.Pod]
		if e == nil {
			continue
		}
		out.Moves = append(out.Moves, ConsolidationMove{
			Namespace: e.facts.ref.Namespace, Pod: e.facts.ref.Name, UID: ev.Pod, Queue: l.queueOf(e),
			From: e.node, To: ev.MoveTo.Node, FromGPUs: uses(l.heldIn(e)), ToGPUs: uses(ev.MoveTo.GPUs), Reason: ev.Reason.Message,
		})
	}
	for i, b := range plan.Before {
		out.GPUs = append(out.GPUs, ConsolidationGPUs{Model: b.Model, Before: freeOf(b), After: freeOf(plan.After[i])})
	}
	if !dryRun {
		l.pin(plan.Moves)
		l.sentence(plan.Moves)
		l.note()
	}
	out.Took = l.clock().Sub(began).Seconds()
	if dryRun {
		return out, nil
	}
	return out, plan.Moves
}

func freeOf(f cycle.FreeGPUs) ConsolidationFree {
	return ConsolidationFree{MilliGPUs: f.Milli, WholeGPUs: f.Whole, LargestBlock: f.Largest, Nodes: f.Nodes}
}

// scheduled moves were planned by Consolidate, for no claimant.
func scheduled(ev *cycle.Eviction) bool { return ev.Rule == cycle.RuleConsolidate && ev.For == "" }

// underWay says which moves of an earlier plan are not done, "" if all are.
func (l *Ledger) underWay() string {
	var names []string
	for _, e := range byUID(l.index.timed) {
		if e.sentence != nil && scheduled(e.sentence) {
			names = append(names, e.facts.ref.String())
		}
	}
	for _, victim := range slices.Sorted(maps.Keys(l.holds)) {
		if h := l.holds[victim]; h.scheduled && h.gone {
			names = append(names, "the successor of "+h.facts.ref.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "earlier moves are under way: " + strings.Join(names, ", ")
}
