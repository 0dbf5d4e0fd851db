// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fairshare"
	"github.com/fairslice/fairslice/core/model"
)

// Action is one part of a cycle.
type Action string

// Actions, in the order in which a cycle runs them.
const (
	Allocate        Action = "allocate"
	Consolidate     Action = "consolidate"
	Reclaim         Action = "reclaim"
	Preempt         Action = "preempt"
	EvictStaleGangs Action = "evictStaleGangs"
)

// Decide runs every action and returns what to do. It leaves the cluster as
// it found it.
func Decide(c *model.Cluster) Plan {
	return DecideActions(c, Allocate, Consolidate, Reclaim, Preempt, EvictStaleGangs)
}

// DecideActions runs only the given actions, in the given order; stale gangs
// are looked at last. With Allocate among them they are repeated until a further
// plan would be empty.
func DecideActions(c *model.Cluster, actions ...Action) Plan {
	c.Settle()
	d := newDecider(c)
	if !d.repeat(actions, maxRounds) {
		c.Undo(d.start)
		d = newDecider(c)
		d.repeat(actions, 1)
	}
	plan := d.plan()
	c.Undo(d.start)
	return plan
}

func newDecider(c *model.Cluster) *decider {
	d := &decider{
		c: c, t: c.Accounts(), settings: c.Settings(), start: c.Mark(),
		reasons: map[*model.LiveWorkload]*explain.Reason{}, evicted: map[*model.LivePod]*verdict{}, won: map[*model.LiveWorkload]bool{}, winners: map[*model.LiveWorkload]bool{},
		jobs: map[*model.LiveWorkload]*job{}, atShare: map[shareNote]*explain.Reason{},
		hopeless: map[*model.Shape]hopelessness{}, budgetUsed: make([]int, len(c.Budgets())),
	}
	fairshare.Divide(d.t, d.settings.UsageFactor)
	return d
}

func (d *decider) run(a Action) {
	switch a {
	case Allocate:
		d.allocate()
	case Consolidate:
		d.consolidate()
	case Reclaim:
		d.reclaim()
	case Preempt:
		d.preempt()
	}
}

// decider is one cycle's work. Its decisions are what-if moves in the cluster,
// read off at the end and taken back.
type decider struct {
	c        *model.Cluster
	t        *model.QueueTree
	settings model.Settings
	start    model.Mark
	// reasons is why a workload could not be placed, the last finding.
	reasons map[*model.LiveWorkload]*explain.Reason
	evicted map[*model.LivePod]*verdict
	// won are workloads for which others are evicted for good. They are no
	// victims in this round: who took their place would have those others
	// evicted without having been weighed against them.
	won map[*model.LiveWorkload]bool
	// winners are those of all rounds.
	winners map[*model.LiveWorkload]bool
	// hopeless remembers shapes that fit nowhere, while room only shrinks.
	hopeless map[*model.Shape]hopelessness
	// budgetUsed counts evictions per disruption budget.
	budgetUsed []int
	tempo      tempo
	victims    *victimIndex
	// jobs are the backlog's, kept over the actions.
	jobs map[*model.LiveWorkload]*job
	// atShare are reasons that say that a queue may not reclaim, by the reason
	// that they add to.
	atShare map[shareNote]*explain.Reason
	pieces  pieces
	// whole cycles allocate too, and are repeated.
	whole bool
	// progress says that a search made room in this round.
	progress bool
	// homes are where pods are that earlier rounds gave another place: see home.
	homes map[*model.LivePod]model.Place
}

// verdict is why a pod is evicted.
type verdict struct {
	rule   Rule
	by     *model.LiveWorkload
	reason explain.Reason
}

// hopelessness is the smallest number of pods of a shape that did not fit, and
// what was short.
type hopelessness struct {
	pods     int
	shortage shortage
	words    map[int]*explain.Reason // by size of the chunk
}

// reason words the shortage for a chunk of some size; jobs of one shape and
// size share it.
func (h hopelessness) reason(d *decider, j *job) *explain.Reason {
	n := len(j.tasks)
	if h.words[n] == nil {
		h.words[n] = h.shortage.of(d, j, n)
	}
	return h.words[n]
}

// backlog lists the jobs with pods to place whose queue is a leaf.
func (d *decider) backlog() []*job {
	seen := map[*model.LiveWorkload]bool{}
	var jobs []*job
	for _, set := range []int{model.SetBacklog, model.SetPromised} {
		for _, w := range d.c.Members(set) {
			if seen[w] || w.Queue == model.NoQueue {
				continue
			}
			seen[w] = true
			j := d.jobs[w]
			if j == nil {
				j = &job{w: w, kept: true}
				d.jobs[w] = j
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}
