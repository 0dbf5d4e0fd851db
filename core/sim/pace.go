// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

const minute = 60_000_000_000

// tempo remembers the evictions for claimants of the last minute, oldest first.
type tempo struct {
	// bounds in all and for each queue that sets none.
	cluster, queue int
	done           []evicted
}

type evicted struct {
	at    int64
	queue string
}

// tempo has the bounds of the scenario, and no evictions.
func (w *world) tempo() tempo {
	if x := w.scenario.Settings; x != nil {
		return tempo{cluster: x.EvictionsPerMinute, queue: x.QueueEvictionsPerMinute}
	}
	return tempo{}
}

// count notes what a plan evicts.
func (t *timeline) count(e *cycle.Eviction, queue string) {
	if e.Rule != cycle.RuleStaleGang {
		t.tempo.done = append(t.tempo.done, evicted{t.now, queue})
	}
}

// feedPace tells the cluster what was evicted within the last minute, and what
// budgets allow after that.
func (t *timeline) feedPace() {
	t.cluster.SetBudgets(t.budgets())
	t.tempo.done = slices.DeleteFunc(t.tempo.done, func(x evicted) bool { return x.at+minute <= t.now })
	pace := model.Pace{Cluster: t.tempo.cluster, Queue: t.tempo.queue, Evicted: map[string]int{}}
	for _, x := range t.tempo.done {
		pace.Evicted[x.queue]++
	}
	t.cluster.SetPace(pace)
}

// paceTurns is when the pace may allow an eviction that it does not allow now.
func (t *timeline) paceTurns() []int64 {
	if len(t.tempo.done) == 0 || !t.cluster.PaceMeter().Paced() {
		return nil
	}
	return []int64{max(t.now, t.tempo.done[0].at+minute)}
}
