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
	// victims are in.
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
