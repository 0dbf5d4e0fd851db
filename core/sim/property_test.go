// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/scenario"
)

func genQueues(t *rapid.T) []scenario.Queue {
	queues := []scenario.Queue{{Name: "root", Quota: scenario.ResourceList{"gpu": amount.Unlimited}}}
	for i := range rapid.IntRange(1, 3).Draw(t, "queues") {
		q := scenario.Queue{
			Name: fmt.Sprintf("q%d", i), Parent: "root",
			Priority:        new(int32(rapid.IntRange(100, 101).Draw(t, "priority"))),
			Quota:           scenario.ResourceList{"gpu": amount.Amount(1000 * rapid.IntRange(0, 3).Draw(t, "quota"))},
			OverQuotaWeight: scenario.ResourceList{"gpu": amount.Amount(1000 * rapid.IntRange(0, 2).Draw(t, "weight"))},
		}
		if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
			q.Limit = scenario.ResourceList{"gpu": amount.Amount(500 * rapid.IntRange(0, 8).Draw(t, "limit"))}
		}
		queues = append(queues, q)
	}
	return queues
}

func genRequest(t *rapid.T) scenario.Request {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return scenario.Request{}
	case 1:
		return scenario.Request{GPUMemoryMiB: rapid.Int64Range(1, 100).Draw(t, "memory")}
	case 2:
		return scenario.Request{GPUSlicePercent: rapid.Int64Range(1, 100).Draw(t, "percent"), GPUDevices: rapid.IntRange(1, 2).Draw(t, "devices")}
	}
	return scenario.Request{GPU: scenario.MilliGPU(1000 * rapid.IntRange(1, 3).Draw(t, "gpus"))}
}

func genWorkload(t *rapid.T, name string, queues int) scenario.Workload {
	w := scenario.Workload{
		Name: name, Queue: fmt.Sprintf("q%d", rapid.IntRange(0, queues-1).Draw(t, "queue")),
		Priority: int32(rapid.SampledFrom([]int{50, 75, 100}).Draw(t, "priority")),
		Replicas: rapid.IntRange(1, 4).Draw(t, "replicas"), Request: genRequest(t),
	}
	w.MinMember = new(rapid.IntRange(1, w.Replicas).Draw(t, "minMember"))
	if rapid.Bool().Draw(t, "finite") {
		w.DurationSeconds = new(scenario.Seconds(rapid.IntRange(1, 30).Draw(t, "duration") * second))
	}
	return w
}

func genScenario(t *rapid.T) *scenario.Scenario {
	s := &scenario.Scenario{Queues: genQueues(t), Timeline: &scenario.Timeline{
		UntilSeconds:       new(scenario.Seconds(200 * second)),
		TerminationSeconds: scenario.Seconds(rapid.IntRange(0, 2).Draw(t, "termination") * second),
	}}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		s.Nodes = append(s.Nodes, scenario.Node{Name: fmt.Sprintf("n%d", i), GPUs: rapid.IntRange(0, 4).Draw(t, "gpus")})
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "events") {
		e := scenario.Event{AtSeconds: scenario.Seconds(rapid.IntRange(0, 60).Draw(t, "at") * second)}
		node := s.Nodes[rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "node")].Name
		switch rapid.IntRange(0, 7).Draw(t, "event") {
		case 0:
			e.NodeDown = node
		case 1:
			e.NodeUp = node
		default:
			e.Submit = new(genWorkload(t, fmt.Sprintf("w%d", i), len(s.Queues)-1))
		}
		s.Timeline.Events = append(s.Timeline.Events, e)
	}
	return s
}

// Whatever happens on a random cluster, no decision breaks an invariant, and
// the run comes to rest.
func TestRandomTimelinesKeepTheInvariants(t *testing.T) {
	evictions := 0
	rapid.Check(t, func(t *rapid.T) {
		s := genScenario(t)
		text, err := scenario.Write(s)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Run(s)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, r := range report.Rounds {
			evictions += r.Evictions
			if len(r.Violations) > 0 {
				t.Fatalf("second %s: %v\n%s\n%s", r.AtSeconds, r.Violations, text, transcript(report))
			}
		}
	})
	if evictions == 0 {
		t.Error("no run evicted anything: the scenarios are too tame to mean anything")
	}
}
