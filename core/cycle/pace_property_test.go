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
		bounds := drawBounds(t, w)
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
		for queue, most := range bounds {
			below, done := map[string]int{}, 0
			w.c.Queues(func(q model.Queue) bool {
				if isBelow(w.c, q.Name, queue) {
					done += pace.Evicted[q.Name]
					for claim, n := range claims[q.Name] {
						below[claim] += n
					}
				}
				return true
			})
			kept("queue "+queue, most, done, below)
		}
		for queue, byClaim := range claims {
			if !bounded(w.c, queue) {
				kept("queue "+queue, pace.Queue, pace.Evicted[queue], byClaim)
			}
		}
	})
}

// drawBounds gives some queues, at any level, a bound of their own.
func drawBounds(t *rapid.T, w *world) map[string]int {
	bounds := map[string]int{}
	var changed []model.Queue
	w.c.Queues(func(q model.Queue) bool {
		if n := rapid.SampledFrom([]int{0, 0, 0, -1, 1, 2, 4}).Draw(t, "bound of "+q.Name); n != 0 {
			q.EvictionsPerMinute, bounds[q.Name] = n, n
			changed = append(changed, q)
		}
		return true
	})
	for _, q := range changed {
		w.must(w.c.SetQueue(q))
	}
	return bounds
}

// isBelow says whether a queue is another one or under it.
func isBelow(c *model.Cluster, queue, above string) bool {
	for queue != "" && queue != above {
		q, _ := c.Queue(queue)
		queue = q.Parent
	}
	return queue == above
}

// bounded says whether a queue or one above says how many evictions it allows.
func bounded(c *model.Cluster, queue string) bool {
	for queue != "" {
		q, _ := c.Queue(queue)
		if q.EvictionsPerMinute != 0 {
			return true
		}
		queue = q.Parent
	}
	return false
}
