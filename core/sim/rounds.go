// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/scenario"
)

// defaultRounds is run where a scenario has neither rounds nor a timeline.
var defaultRounds = scenario.Rounds{Mode: scenario.ModeFull, Until: 2, After: 1}

// Run runs the scenario and compares the outcome with what it expects. An error
// means that the scenario makes no sense as a cluster.
func Run(s *scenario.Scenario) (*Report, error) {
	w := newWorld(s)
	report := &Report{ID: s.ID}
	var err error
	switch {
	case s.Timeline != nil:
		report.Rounds, err = w.runTimeline(s.Timeline)
	case s.Rounds != nil:
		report.Rounds, err = w.runRounds(s.Rounds)
	default:
		report.Rounds, err = w.runRounds(&defaultRounds)
	}
	if err != nil {
		return nil, err
	}
	report.Differences = Judge(s, report.Rounds)
	return report, nil
}

// runRounds runs every round on a fresh snapshot.
func (w *world) runRounds(r *scenario.Rounds) ([]Round, error) {
	count, names := r.Until+r.After, r.Actions
	if r.Mode == scenario.ModeSingle {
		count = 1
	}
	if len(names) == 0 {
		names = scenario.Actions
	}
	var actions []cycle.Action
	for _, a := range names {
		actions = append(actions, cycle.Action(a))
	}
	var out []Round
	for i := range count {
		if i > 0 {
			w.moveOn()
		}
		round, err := w.round(actions)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
		out = append(out, round)
	}
	return out, nil
}

func (w *world) round(actions []cycle.Action) (Round, error) {
	cluster, err := w.snapshot()
	if err != nil {
		return Round{}, err
	}
	clear(w.account.before)
	plan := cycle.DecideActions(cluster, actions...)
	var round Round
	if err := w.applyToRound(&plan, &round); err != nil {
		return Round{}, err
	}
	counts := round
	round = w.report(&plan)
	w.reportStates(&round)
	round.Binds, round.Evictions, round.Pipelined = counts.Binds, counts.Evictions, counts.Pipelined
	round.Violations = w.violations(&plan)
	return round, nil
}

// applyToRound puts the pods into the raw states at the end of a round. A moved
// victim is promised its new place at once.
func (w *world) applyToRound(plan *cycle.Plan, counts *Round) error {
	for _, uid := range plan.Withdrawn {
		p, err := w.known(uid)
		if err != nil {
			return err
		}
		p.state = scenario.Pending
		w.book(p)
	}
	for _, e := range plan.Evictions {
		p, err := w.known(e.Pod)
		if err != nil {
			return err
		}
		counts.Evictions++
		p.state = scenario.Releasing
		if e.MoveTo != nil {
			counts.Pipelined++
			p.state, p.model.Node, p.model.Held = scenario.Pipelined, e.MoveTo.Node, e.MoveTo.GPUs
			p.awaits = e.MoveTo.Awaits
		}
		w.book(p)
	}
	for _, x := range plan.Placements {
		p, err := w.known(x.Pod)
		if err != nil {
			return err
		}
		p.model.Node, p.model.Held, p.awaits = x.Node, x.GPUs, x.Awaits
		p.state = scenario.Binding
		if len(x.Awaits) > 0 {
			p.state = scenario.Pipelined
			counts.Pipelined++
		} else {
			counts.Binds++
		}
		w.book(p)
	}
	return nil
}

func (w *world) known(uid string) (*pod, error) {
	if p := w.pods[uid]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("the plan names pod %q, which does not exist", uid)
}

// moveOn turns the states at the end of a round into those at the start of the
// next one.
func (w *world) moveOn() {
	for _, wl := range w.workloads {
		for _, p := range wl.pods {
			switch p.state {
			case scenario.Binding, scenario.Bound, scenario.Allocated:
				p.state = scenario.Running
				if wl.model.StartedAt == 0 {
					wl.model.StartedAt = w.now
				}
			case scenario.Pipelined:
				p.state = scenario.Pending
			case scenario.Releasing:
				if !wl.spec.DeleteInTest {
					p.state = scenario.Pending
				}
			}
			p.awaits = nil
			w.book(p)
		}
	}
}
