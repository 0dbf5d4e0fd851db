// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"github.com/fairslice/fairslice/core/scenario"
)

// Difference is one thing that came out other than expected. Tie means that the
// scenario calls the outcome a matter of names.
type Difference struct {
	Text string `json:"text"`
	Tie  bool   `json:"tie,omitempty"`
}

// judge collects differences.
type judge struct {
	scenario *scenario.Scenario
	found    []Difference
}

// Judge compares rounds with the scenario's expectations. In full mode the
// states after round Until, moved on, must be as expected, and so must the raw
// states at the end of each later round: that proves a fixed point.
func Judge(s *scenario.Scenario, rounds []Round) []Difference {
	if s.Expect == nil || len(rounds) == 0 {
		return nil
	}
	j := &judge{scenario: s}
	for i := range rounds {
		j.counts(i, &rounds[i])
	}
	last := len(rounds) - 1
	switch {
	case s.Timeline != nil, s.Rounds != nil && s.Rounds.Mode == scenario.ModeSingle:
		j.states(&rounds[last], rounds[last].Pods, "in the end", true)
	default:
		plan := s.Rounds
		if plan == nil {
			plan = &defaultRounds
		}
		until := plan.Until - 1
		j.states(&rounds[until], j.movedOn(rounds[until].Pods), fmt.Sprintf("after round %d", plan.Until), false)
		for i := plan.Until; i < len(rounds); i++ {
			j.states(&rounds[i], rounds[i].Pods, fmt.Sprintf("end of round %d", i+1), true)
		}
	}
	return j.found
}

func (j *judge) add(tie bool, format string, args ...any) {
	j.found = append(j.found, Difference{fmt.Sprintf(format, args...), tie})
}

func (j *judge) counts(i int, r *Round) {
	e := j.scenario.Expect
	for _, c := range []struct {
		name  string
		got   int
		bound *int
	}{{"binds", r.Binds, e.Binds}, {"evictions", r.Evictions, e.Evictions}, {"pipelined", r.Pipelined, e.Pipelined}} {
		if c.bound != nil && c.got > *c.bound {
			j.add(e.CountsTieBreak, "round %d: %s is %d, at most %d", i+1, c.name, c.got, *c.bound)
		}
	}
}

// movedOn is the table by which states pass from one round to the next.
func (j *judge) movedOn(pods map[string]PodReport) map[string]PodReport {
	stays := map[string]bool{}
	for i := range j.scenario.Workloads {
		for _, name := range j.scenario.Workloads[i].PodNames() {
			stays[name] = j.scenario.Workloads[i].DeleteInTest
		}
	}
	out := make(map[string]PodReport, len(pods))
	for name, p := range pods {
		switch p.State {
		case scenario.Binding, scenario.Bound, scenario.Allocated:
			p.State = scenario.Running
		case scenario.Pipelined:
			p.State, p.Node = scenario.Pending, ""
		case scenario.Releasing:
			if !stays[name] {
				p.State, p.Node = scenario.Pending, ""
			}
		}
		out[name] = p
	}
	return out
}

func (j *judge) states(r *Round, pods map[string]PodReport, when string, nodes bool) {
	e := j.scenario.Expect
	members := map[string][]string{}
	for i := range j.scenario.Workloads {
		members[j.scenario.Workloads[i].Name] = j.scenario.Workloads[i].PodNames()
	}
	if t := j.scenario.Timeline; t != nil {
		for _, event := range t.Events {
			if event.Submit != nil {
				members[event.Submit.Name] = event.Submit.PodNames()
			}
		}
	}
	for _, name := range sortedKeys(e.Workloads) {
		want := e.Workloads[name]
		for _, pod := range members[name] {
			j.pod(pods, pod, want, when)
		}
		j.workload(name, members[name], pods, r, want, when)
	}
	for _, name := range sortedKeys(e.Pods) {
		j.pod(pods, name, e.Pods[name], when)
	}
	if !nodes {
		return
	}
	for _, name := range sortedKeys(e.Nodes) {
		want, got := e.Nodes[name], r.Nodes[name]
		if want.IdleGPUs != nil && got.IdleGPUs != *want.IdleGPUs {
			j.add(false, "%s: node %s has %d idle GPUs, want %d", when, name, got.IdleGPUs, *want.IdleGPUs)
		}
		if want.ReleasingGPUs != nil && got.ReleasingGPUs != *want.ReleasingGPUs {
			j.add(false, "%s: node %s has %d releasing GPUs, want %d", when, name, got.ReleasingGPUs, *want.ReleasingGPUs)
		}
	}
}

func (j *judge) pod(pods map[string]PodReport, name string, want scenario.Expectation, when string) {
	got := pods[name]
	tie := func(field string) bool {
		return want.TieBreak && (len(want.TieBreakOn) == 0 || slices.Contains(want.TieBreakOn, field))
	}
	if want.State != "" && got.State != want.State {
		j.add(tie("state"), "%s: pod %s is %s, want %s", when, name, got.State, want.State)
	}
	if want.Node != "" && got.Node != want.Node {
		j.add(tie("node"), "%s: pod %s is on node %q, want %q", when, name, got.Node, want.Node)
	}
}

func (j *judge) workload(name string, pods []string, states map[string]PodReport, r *Round, want scenario.Expectation, when string) {
	if want.FitErrorReported && r.Reasons[name] == "" {
		j.add(false, "%s: workload %s has no reason for waiting", when, name)
	}
	if want.AcceptedGPUs == nil {
		return
	}
	var sum float64
	for _, pod := range pods {
		accepted, _ := states[pod].AcceptedGPUs.Float64()
		sum += accepted
	}
	const roundedToPercent = 0.0051
	if wanted := float64(*want.AcceptedGPUs) / 1000; sum-wanted > roundedToPercent || wanted-sum > roundedToPercent {
		j.add(want.TieBreak, "%s: workload %s was granted %g GPUs, want %g", when, name, sum, wanted)
	}
}
