// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// planText writes a plan with pods by their plain names.
func planText(c *model.Cluster) string {
	plan := cycle.Decide(c)
	var b strings.Builder
	plain := func(uid string) string { return strings.TrimPrefix(uid, "default/") }
	for _, x := range plan.Placements {
		fmt.Fprintf(&b, "place %s %s %v kept=%v\n", plain(x.Pod), x.Node, x.GPUs, x.Kept)
	}
	for _, e := range plan.Evictions {
		fmt.Fprintf(&b, "evict %s by %s\n", plain(e.Pod), e.Rule)
	}
	for _, w := range plan.Waits {
		fmt.Fprintf(&b, "wait %d %s\n", w.Position, w.Reason.Code)
	}
	for _, q := range plan.Queues {
		fmt.Fprintf(&b, "queue %s %v %v\n", q.Name, q.FairShare, q.Allocated)
	}
	return b.String()
}

// What was recorded of a cluster, written and read back, is decided alike.
func TestRecordedClustersAreDecidedAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genScenario(t)
		for _, e := range s.Timeline.Events {
			if e.Submit != nil {
				s.Workloads = append(s.Workloads, *e.Submit)
			}
		}
		s.Timeline = nil
		w := newWorld(s)
		if rapid.Bool().Draw(t, "running") {
			if _, err := w.round([]cycle.Action{cycle.Allocate}); err != nil {
				t.Fatal(err)
			}
			w.moveOn()
			w.nodes[0].Unschedulable = true
		}
		live, err := w.snapshot()
		if err != nil {
			t.Fatal(err)
		}
		data, err := scenario.Write(Record(live))
		if err != nil {
			t.Fatal(err)
		}
		read, err := scenario.Read(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		again, err := newWorld(read[0]).snapshot()
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if want, got := planText(live), planText(again); got != want {
			t.Fatalf("recorded:\n%s\nlive:\n%s\n%s", got, want, data)
		}
	})
}
