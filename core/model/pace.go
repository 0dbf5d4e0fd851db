// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "maps"

// Pace bounds how many pods may be evicted a minute for claimants. It is a hard
// rule; 0 is no bound. A claim is carried out whole or not at all, so one that
// is larger than a bound waits until the last minute saw no eviction, and then
// exceeds it.
type Pace struct {
	// Cluster and Queue are the bounds in all, and for each leaf queue that
	// victims are in if neither it nor a queue above sets EvictionsPerMinute.
	Cluster, Queue int
	// Evicted counts the evictions of the last minute by the leaf queue that
	// the victims were in.
	Evicted map[string]int
}

// SetPace replaces the bounds and what counts against them.
func (c *Cluster) SetPace(p Pace) {
	p.Evicted = maps.Clone(p.Evicted)
	c.pace = p
}

// Pace returns the bounds and what counts against them.
func (c *Cluster) Pace() Pace { return c.pace }

// PaceMeter counts evictions against the bounds on their pace: those of the last
// minute, and those that Take adds. Bounds are named by the index of their queue
// in the tree, that of the cluster by NoQueue.
type PaceMeter struct {
	c     *Cluster
	paced bool
	done  map[int]int
}

// PaceMeter returns a meter of the settled cluster as it is now.
func (c *Cluster) PaceMeter() *PaceMeter {
	m := &PaceMeter{c: c, done: map[int]int{}, paced: c.pace.Cluster > 0 || c.pace.Queue > 0}
	for i := range c.tree.Queues {
		m.paced = m.paced || c.tree.Queues[i].EvictionsPerMinute > 0
	}
	if !m.paced {
		return m
	}
	for name, n := range c.pace.Evicted {
		m.done[NoQueue] += n
		if q, ok := c.queueIndex[name]; ok {
			for ; q != NoQueue; q = c.tree.Queues[q].Parent {
				m.done[q] += n
			}
		}
	}
	return m
}

// Paced says whether there is any bound at all.
func (m *PaceMeter) Paced() bool { return m.paced }

// Bound is how many evictions a minute a queue with everything below it allows,
// 0 for any number, and how many count against that.
func (m *PaceMeter) Bound(queue int) (most, done int) {
	switch {
	case queue == NoQueue:
		most = m.c.pace.Cluster
	case m.c.tree.Queues[queue].EvictionsPerMinute != 0:
		most = max(0, m.c.tree.Queues[queue].EvictionsPerMinute)
	case m.c.tree.Leaf(queue) && !m.setAbove(queue):
		most = m.c.pace.Queue
	}
	return most, m.done[queue]
}

func (m *PaceMeter) setAbove(queue int) bool {
	for q := m.c.tree.Queues[queue].Parent; q != NoQueue; q = m.c.tree.Queues[q].Parent {
		if m.c.tree.Queues[q].EvictionsPerMinute != 0 {
			return true
		}
	}
	return false
}

// Need counts one eviction in a leaf queue into need, by the bounds that it falls
// under.
func (m *PaceMeter) Need(need map[int]int, leaf int) {
	need[NoQueue]++
	for q := leaf; q != NoQueue; q = m.c.tree.Queues[q].Parent {
		need[q]++
	}
}

// Count adds evictions, as Need counts them.
func (m *PaceMeter) Count(need map[int]int) {
	for q, n := range need {
		m.done[q] += n
	}
}

// Take counts one eviction in each of the leaf queues, if that is within all
// bounds; else it changes nothing.
func (m *PaceMeter) Take(leaves []int) bool {
	if !m.paced {
		return true
	}
	need := map[int]int{}
	for _, leaf := range leaves {
		m.Need(need, leaf)
	}
	for q, n := range need {
		if most, done := m.Bound(q); most > 0 && done > 0 && done+n > most {
			return false
		}
	}
	m.Count(need)
	return true
}

// PreemptionDelay is how long a workload waits for free room before others are
// evicted for it, in nanoseconds: its own delay, else that of the nearest queue
// that sets one, from its own to the root, else that of the settings.
func (c *Cluster) PreemptionDelay(w *Workload) int64 {
	if w.PreemptionDelay != 0 {
		return max(0, w.PreemptionDelay)
	}
	q := c.queues[w.Queue]
	for range c.queues {
		switch {
		case q == nil:
			return c.settings.PreemptionDelay
		case q.PreemptionDelay != 0:
			return max(0, q.PreemptionDelay)
		}
		q = c.queues[q.Parent]
	}
	return c.settings.PreemptionDelay
}
