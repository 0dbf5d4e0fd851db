// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
)

// Fill is how a job or sub-group stands to its minimum.
type Fill int8

// Fills, in the order in which jobs are served.
const (
	// Broken jobs are below their minimum and yet hold room, which is of no use
	// to anybody until they are whole again.
	Broken   Fill = -1
	BelowMin Fill = iota - 1
	AtMin
	AboveMin
)

// FillOf compares the pods that hold a place with the minimum.
func FillOf(active, minimum int) Fill {
	return Fill(cmp.Compare(active, minimum) + 1)
}

// Job is what orders a job inside its leaf queue.
type Job struct {
	Priority  int32
	Fill      Fill
	CreatedAt int64  // nanoseconds
	Key       string // unique
}

// Jobs returns −1 if a is served before b: higher priority, then below its
// minimum before at it before above it, then older, then the lower key.
// (docs/fairness.md J1 to J4.)
func Jobs(a, b Job) int {
	switch {
	case a.Priority != b.Priority:
		return cmp.Compare(b.Priority, a.Priority)
	case a.Fill != b.Fill:
		return cmp.Compare(a.Fill, b.Fill)
	case a.CreatedAt != b.CreatedAt:
		return cmp.Compare(a.CreatedAt, b.CreatedAt)
	}
	return cmp.Compare(a.Key, b.Key)
}

// SubGroup is what orders a sub-group among its siblings.
type SubGroup struct {
	Name string
	// Active members hold a place; Min of them must, before any of them runs.
	Active, Min int
}

// SubGroups returns −1 if a is served before b: below its minimum before
// satisfied, then, of two satisfied ones, the smaller ratio of active members to
// minimum, then the lower name. A minimum of 0 counts as 1 in the ratio.
// (docs/fairness.md S1 to S3.)
func SubGroups(a, b SubGroup) int {
	aDone, bDone := a.Active >= a.Min, b.Active >= b.Min
	if c := falseFirst(aDone, bDone); c != 0 {
		return c
	}
	if aDone {
		if c := amount.CompareRatios(
			amount.Amount(a.Active), amount.Amount(max(a.Min, 1)),
			amount.Amount(b.Active), amount.Amount(max(b.Min, 1)),
		); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Name, b.Name)
}

// Pods returns −1 if a is placed before b, and evicted after it: leaders, then
// pods with an explicit order, higher first, then older, then the lower name
// and UID. (docs/fairness.md P1 to P4.)
func Pods(a, b *model.Pod) int {
	c := cmp.Or(falseFirst(!a.Leader, !b.Leader), falseFirst(!a.HasOrder, !b.HasOrder))
	if c == 0 && a.HasOrder {
		c = cmp.Compare(b.Order, a.Order)
	}
	return cmp.Or(c,
		cmp.Compare(a.CreatedAt, b.CreatedAt),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.UID, b.UID),
	)
}
