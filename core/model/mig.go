// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// A MIG instance costs a queue its part of the card's compute slices, in
// thousandths of a GPU and rounded down. Compute and not memory, because the
// profile's name says it, so that a pod costs the same wherever it waits, and
// because the instances of a card never add up to more than the card, whatever
// its layout; by memory, or by the larger of both, 4g.20gb beside 3g.20gb would.

// sevenths is how many compute slices a card has, unless its profiles are in
// quarters.
const sevenths = 7

// quarters are the profiles, without attributes, of the cards that have four
// compute slices: A30, and RTX PRO 6000 Blackwell. One name is not theirs alone,
// 1g.24gb: on H100 with 96 GB it is one of seven compute slices and a quarter of
// the memory, and costs a quarter there, too.
var quarters = map[string]bool{
	"1g.6gb": true, "2g.12gb": true, "4g.24gb": true,
	"1g.24gb": true, "2g.48gb": true, "4g.96gb": true,
}

// migMilli is what one unit of a resource costs as a MIG instance; other
// resource names cost nothing.
func (c *Cluster) migMilli(resource string) int64 {
	profile, ok := strings.CutPrefix(resource, ResourceMIGPrefix)
	if !ok {
		return 0
	}
	compute, of := int64(0), int64(sevenths)
	for _, r := range profile {
		if r < '0' || r > '9' {
			break
		}
		compute = min(compute*10+int64(r-'0'), 1000)
	}
	if c.settings.MIGSlicesAsGPUs {
		return compute * 1000
	}
	if quarters[withoutAttributes(profile)] {
		of = 4
	}
	return min(compute, of) * 1000 / of
}

// withoutAttributes cuts what follows the memory of "1g.10gb.me" or
// "1g.10gb+me".
func withoutAttributes(profile string) string {
	const unit = "gb"
	if at := strings.Index(profile, unit); at >= 0 {
		return profile[:at+len(unit)]
	}
	return profile
}
