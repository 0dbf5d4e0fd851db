// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// Plans that no decision may make are all found out.
func TestBrokenInvariantsAreFound(t *testing.T) {
	const text = `{"nodes": [{"name": "n", "gpus": 2, "maxPods": 3, "gpuMemoryMiB": 100}],
	"queues": [{"name": "q", "quota": {"gpu": 1}, "limit": {"gpu": 1}}],
	"workloads": [{"name": "a", "queue": "q", "replicas": 2, "priority": 100, "request": {"gpu": 1}},
	 {"name": "v", "queue": "q", "request": {"gpu": 0.5}, "pods": [{"name": "v-0", "state": "Running", "node": "n"}]}]}`
	place := func(pod, gpu string) cycle.Placement {
		return cycle.Placement{Pod: pod, Workload: "default/" + pod[:1], Node: "n", GPUs: []model.HeldGPU{{Claim: "gpu", GPU: gpu, Milli: 1000, MemoryMiB: 100}}}
	}
	promise := place("a-0", "0")
	promise.Awaits = []string{"v-0"}
	for name, tc := range map[string]struct {
		plan cycle.Plan
		want string
	}{
		"a GPU twice":            {cycle.Plan{Placements: []cycle.Placement{place("a-0", "0"), place("a-1", "1")}}, "n now GPU 0 milli: 1500 of 1000"},
		"promised twice":         {cycle.Plan{Placements: []cycle.Placement{promise}}, "n later GPU 0 milli: 1500 of 1000"},
		"above the limit":        {cycle.Plan{Placements: []cycle.Placement{place("a-0", "1"), place("a-1", "1")}}, "queue q limit of gpu: 2500 of 1000"},
		"above the quota":        {cycle.Plan{Placements: []cycle.Placement{place("a-0", "1"), place("a-1", "1")}}, "queue q quota for non-preemptible work of gpu: 2000 of 1000"},
		"part of a gang":         {cycle.Plan{Placements: []cycle.Placement{place("a-0", "1")}}, "workload a starts with 1 of 2 members"},
		"an eviction for nobody": {cycle.Plan{Evictions: []cycle.Eviction{{Pod: "v-0", Rule: cycle.RuleReclaim, For: "default/a"}}}, "pod v-0 is evicted for default/a, which gets no place"},
		"a victim twice": {
			cycle.Plan{Evictions: []cycle.Eviction{{Pod: "v-0", Rule: cycle.RuleStaleGang}, {Pod: "v-0", Rule: cycle.RuleStaleGang}}},
			"pod v-0 is evicted twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := scenario.Read([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(read[0])
			var counts Round
			if err := w.applyToRound(&tc.plan, &counts); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(w.violations(&tc.plan), "\n"); !strings.Contains(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}
