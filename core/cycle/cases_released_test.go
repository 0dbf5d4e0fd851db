// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"testing"

	"github.com/fairslice/fairslice/core/model"
)

// TestReleasedGangGoesAtOnce: a gang that gives its members up does so while the
// lost one is still leaving, after others have finished, and beside a pod that
// could stand in; a gang that is not released does none of it.
func TestReleasedGangGoesAtOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		released bool
		lost     model.PodState
		want     map[string]int
	}{
		{"released while the lost one leaves", true, model.Releasing, map[string]int{"G": 2}},
		{"released after one has finished", true, model.Succeeded, map[string]int{"G": 2}},
		{"released after one has failed", true, model.Failed, map[string]int{"G": 2}},
		{"not released", false, model.Releasing, map[string]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", 4)
			w.queue("q")
			w.submit(job{name: "G", queue: "q", pods: 3, gang: 3, gpus: 1, node: "n1"})
			w.change("G-002", func(p *model.Pod) { p.State = c.lost })
			spec, _ := w.c.Workload("ns/G")
			spec.Released, spec.StaleGrace, spec.StaleSince = c.released, 0, w.now
			w.must(w.c.SetWorkload(spec))
			w.cycle()
			w.wantEvicted("all that are left, in the first cycle", c.want)
		})
	}
}

// TestStuckMemberStandsForNobody: a pod that is terminating for ever does not keep
// the rest of its gang beyond the grace; one that is leaving does.
func TestStuckMemberStandsForNobody(t *testing.T) {
	for state, want := range map[model.PodState]map[string]int{model.Stuck: {"G": 1}, model.Releasing: {}} {
		w := newWorld(t)
		w.node("n1", 4)
		w.queue("q")
		w.submit(job{name: "G", queue: "q", pods: 2, gang: 2, gpus: 1, node: "n1"})
		w.change("G-001", func(p *model.Pod) { p.State = state })
		spec, _ := w.c.Workload("ns/G")
		spec.StaleGrace, spec.StaleSince = second, w.now-2*second
		w.must(w.c.SetWorkload(spec))
		w.cycle()
		w.wantEvicted("the rest of the gang", want)
	}
}

// TestFinishedMembersOfASubGroup count although their pods are gone.
func TestFinishedMembersOfASubGroup(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	w.queue("q")
	w.grouped(0, 0)
	w.must(w.c.SetWorkload(model.Workload{
		Key: "ns/G", Queue: "q", Preemptible: true, StaleGrace: 0, StaleSince: w.now, OneRun: true,
		SubGroups: []model.SubGroup{{Name: "init", MinMember: 2, Finished: 2}, {Name: "train", MinMember: 1}},
	}))
	w.memberOf("t1", "train", "n1")
	w.cycle()
	w.wantEvicted("nobody: the others have finished", map[string]int{})
}
