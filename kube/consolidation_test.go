// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"
)

// consolidate prints what is moved, or would be, and what that gains.
func (p *player) consolidate(dry bool) string {
	report, evict := p.ledger.Consolidate(dry)
	var out strings.Builder
	if report.Postponed != "" {
		fmt.Fprintf(&out, "postponed: %s\n", report.Postponed)
	}
	for _, m := range report.Moves {
		fmt.Fprintf(&out, "%s/%s of queue %s from %s %v to %s %v\n", m.Namespace, m.Pod, m.Queue, m.From, m.FromGPUs, m.To, m.ToGPUs)
	}
	for _, g := range report.GPUs {
		fmt.Fprintf(&out, "%s: %v, then %v\n", g.Model, g.Before, g.After)
	}
	fmt.Fprintf(&out, "%d to evict\n", len(evict))
	return out.String() + p.holdings()
}
