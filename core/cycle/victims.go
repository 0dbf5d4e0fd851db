// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

type victimIndex struct{}

func (d *decider) consolidate()     {}
func (d *decider) reclaim()         {}
func (d *decider) preempt()         {}
func (d *decider) evictStaleGangs() {}
