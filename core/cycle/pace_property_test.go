// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

// The evictions of a plan for claimants keep to the bounds of the minute; only one
// claim that nothing went before may exceed one.
func TestPlansKeepThePace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.cycle()
		queueOf := map[string]string{}
		var queues []string
		w.c.Workloads(func(k model.Workload) bool {
			queueOf[k.Key], queues = k.Queue, append(queues, k.Queue)
			return true
		})
		pace := model.Pace{
			Cluster: rapid.IntRange(0, 4).Draw(t, "cluster"), Queue: rapid.IntRange(0, 3).Draw(t, "queue"), Evicted: map[string]int{},
		}
		slices.Sort(queues)
		for i := range rapid.IntRange(2, 8).Draw(t, "newcomers") {
			w.submitDrawn(t, fmt.Sprint("new", i), rapid.SampledFrom(queues).Draw(t, "queue"))
		}
		pace.Evicted[rapid.SampledFrom(queues).Draw(t, "victims of")] = rapid.IntRange(0, 3).Draw(t, "evicted")
		w.c.SetPace(pace)
		claims, inAll := map[string]map[string]int{"": {}}, map[string]int{}
		for _, e := range cycle.Decide(w.c).Evictions {
			if e.Rule == cycle.RuleStaleGang {
				continue
			}
			queue := queueOf[e.Workload]
			inAll[e.For]++
			if claims[queue] == nil {
				claims[queue] = map[string]int{}
			}
			claims[queue][e.For]++
		}
		done := 0
		for _, n := range pace.Evicted {
			done += n
		}
		kept := func(what string, most, done int, byClaim map[string]int) {
			n := 0
			for _, of := range byClaim {
				n += of
			}
			if most > 0 && n > 0 && done+n > most && (done > 0 || len(byClaim) > 1) {
				t.Fatalf("%s: %d evictions a minute are allowed and %d done, the plan has %v", what, most, done, byClaim)
			}
		}
		kept("cluster", pace.Cluster, done, inAll)
		for queue, byClaim := range claims {
			kept("queue "+queue, pace.Queue, pace.Evicted[queue], byClaim)
		}
	})
}
