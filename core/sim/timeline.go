// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// maxCycles and maxCyclesAtOnce end runs that never come to rest.
const (
	maxCycles       = 200_000
	maxCyclesAtOnce = 1000
)

// timeline is a run in simulated time. One cluster is kept up to date by what
// happens, as on a live cluster.
type timeline struct {
	*world
	spec    *scenario.Timeline
	cluster *model.Cluster
	// next is the first event that has not happened.
	next     int
	events   []*scenario.Event
	happened []string
	tempo    tempo
	// changed are pods since the last report, in order.
	changed []*pod
}

func (w *world) runTimeline(spec *scenario.Timeline) ([]Round, error) {
	cluster, err := w.snapshot()
	if err != nil {
		return nil, err
	}
	t := &timeline{world: w, spec: spec, cluster: cluster, tempo: w.tempo()}
	for _, wl := range w.workloads {
		for _, p := range wl.pods {
			if p.state == scenario.Running || p.state == scenario.Bound {
				t.plannedEnd(p, wl.model.StartedAt)
			}
			if p.state == scenario.Releasing && !wl.spec.DeleteInTest {
				p.ends = w.now + int64(spec.TerminationSeconds)
			}
		}
	}
	return t.run()
}

func (t *timeline) run() ([]Round, error) {
	var rounds []Round
	atOnce, before := 0, t.now
	for range maxCycles {
		if err := t.advance(); err != nil {
			return nil, err
		}
		round, changed, err := t.cycle()
		if err != nil {
			return nil, err
		}
		if changed || len(rounds) == 0 {
			rounds = append(rounds, round)
		}
		if atOnce++; t.now != before {
			atOnce, before = 0, t.now
		}
		if atOnce == maxCyclesAtOnce {
			return nil, fmt.Errorf("second %s: still no rest after %d cycles at that instant", seconds(t.now), maxCyclesAtOnce)
		}
		next, more := t.wake()
		if !more || t.spec.UntilSeconds != nil && next > start+int64(*t.spec.UntilSeconds) {
			t.reportStates(&rounds[len(rounds)-1])
			return rounds, nil
		}
		t.now = next
	}
	return nil, fmt.Errorf("second %s: the run is cut off after %d cycles; timeline.untilSeconds ends it earlier", seconds(t.now), maxCycles)
}

func seconds(now int64) Number {
	raw, _ := scenario.Seconds(now - start).MarshalJSON() // never fails
	return Number(raw)
}

// cycle decides once, and reports whether anything happened or was decided.
func (t *timeline) cycle() (Round, bool, error) {
	t.cluster.SetNow(t.now)
	clear(t.account.before)
	t.feedPace()
	plan := cycle.Decide(t.cluster)
	counts := Round{}
	if err := t.apply(&plan, &counts); err != nil {
		return Round{}, false, fmt.Errorf("second %s: %w", seconds(t.now), err)
	}
	round := t.report(&plan)
	round.Binds, round.Evictions, round.Pipelined = counts.Binds, counts.Evictions, counts.Pipelined
	round.AtSeconds, round.Happened = seconds(t.now), t.happened
	round.Violations = append(t.violations(&plan), t.secondLook()...)
	for _, p := range t.changed {
		round.Pods[p.model.Name] = p.report()
	}
	t.changed = nil
	changed := len(t.happened) > 0 || len(round.Decisions) > 0
	t.happened = nil
	return round, changed, nil
}

// secondLook decides again on what the plan made of the cluster: nothing may be
// left to decide.
func (t *timeline) secondLook() []string {
	t.feedPace()
	plan := cycle.Decide(t.cluster)
	var out []string
	for _, x := range plan.Placements {
		p := t.pods[x.Pod]
		if p != nil && (!x.Kept || len(x.Awaits) == 0) { // others stand for pods that follow moved ones
			out = append(out, fmt.Sprintf("a second look places pod %s", x.Pod))
		}
	}
	for _, e := range plan.Evictions {
		out = append(out, fmt.Sprintf("a second look evicts pod %s", e.Pod))
	}
	for _, uid := range plan.Withdrawn {
		if t.pods[uid] == nil {
			continue // it stands for a pod that follows a moved one
		}
		out = append(out, fmt.Sprintf("a second look withdraws the promise of pod %s", uid))
	}
	return out
}

// apply carries out a plan. Pods start when they are bound; a victim is gone
// after its termination time.
func (t *timeline) apply(plan *cycle.Plan, counts *Round) error {
	for _, uid := range plan.Withdrawn {
		if p := t.pods[uid]; p != nil {
			p.state, p.awaits = scenario.Pending, nil
			t.update(p)
			continue
		}
		t.dropTarget(uid)
	}
	for i := range plan.Evictions {
		e := &plan.Evictions[i]
		p, err := t.known(e.Pod)
		if err != nil {
			return err
		}
		counts.Evictions++
		t.count(e, p.workload.model.Queue)
		p.state, p.ends = scenario.Releasing, t.now+int64(t.spec.TerminationSeconds)
		p.target, p.evicted = e.MoveTo, true
		t.update(p)
		if e.MoveTo != nil {
			counts.Pipelined++
			t.holdTarget(p)
		}
	}
	for i := range plan.Placements {
		x := &plan.Placements[i]
		if p := t.pods[x.Pod]; p != nil {
			t.place(p, x, counts)
		}
	}
	t.markShort(plan.Short)
	return nil
}

func (t *timeline) place(p *pod, x *cycle.Placement, counts *Round) {
	p.model.Node, p.model.Held, p.awaits = x.Node, x.GPUs, x.Awaits
	if len(x.Awaits) > 0 {
		if !x.Kept {
			counts.Pipelined++
		}
		p.state = scenario.Pipelined
		t.update(p)
		return
	}
	counts.Binds++
	wl := p.workload
	if !wl.active() {
		wl.model.StartedAt = t.now
		t.updateWorkload(wl)
	}
	p.state = scenario.Running
	t.plannedEnd(p, t.now)
	t.update(p)
}

func (wl *workload) active() bool {
	for _, p := range wl.pods {
		if p.state == scenario.Running || p.state == scenario.Bound || p.state == scenario.Binding {
			return true
		}
	}
	return false
}

func (t *timeline) plannedEnd(p *pod, started int64) {
	if d := p.workload.spec.DurationSeconds; d != nil {
		p.ends = max(started+int64(*d), t.now)
	}
}

// markShort keeps since when gangs run in part.
func (t *timeline) markShort(keys []string) {
	short := map[string]bool{}
	for _, key := range keys {
		short[key] = true
	}
	for _, wl := range t.workloads {
		since := wl.model.StaleSince
		switch {
		case short[wl.model.Key] && since == 0:
			since = t.now
		case !short[wl.model.Key]:
			since = 0
		}
		if since != wl.model.StaleSince && !wl.gone {
			wl.model.StaleSince = since
			t.updateWorkload(wl)
		}
	}
}

// The model refuses only what the scenario's check or the first snapshot has
// refused already.
func (t *timeline) update(p *pod) {
	t.must(t.cluster.SetPod(p.spec()))
	t.book(p)
	t.changed = append(t.changed, p)
}

func (t *timeline) updateWorkload(wl *workload) { t.must(t.cluster.SetWorkload(wl.model)) }

func (t *timeline) must(err error) {
	if err != nil {
		t.happened = append(t.happened, "refused: "+err.Error())
	}
}

// targetUID stands for the pod that will follow a moved one, and holds its
// place until then.
func targetUID(uid string) string { return uid + " (moved)" }

func (t *timeline) holdTarget(p *pod) {
	m := p.model
	m.UID, m.Name = targetUID(m.UID), targetUID(m.Name)
	m.State, m.StandIn, m.Node, m.Held = model.Promised, true, p.target.Node, p.target.GPUs
	t.must(t.cluster.SetPod(m))
}

func (t *timeline) dropTarget(uid string) {
	for _, p := range t.pods {
		if p.target != nil && targetUID(p.model.UID) == uid {
			p.target = nil
			t.cluster.RemovePod(uid)
			t.update(p)
		}
	}
}
