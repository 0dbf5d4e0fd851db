// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pending prints the waiting line of a queue.
func (p *player) pending(queue string) string {
	list, known := p.ledger.Pending(queue)
	if !known {
		return "unknown\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d in queue %s, which exists: %v\n", list.Total, list.Queue, list.Exists)
	for _, w := range list.Workloads {
		fmt.Fprintf(&out, "%d. %s %s/%s", w.Position, w.Queue, w.Namespace, w.Workload)
		if w.Gang {
			fmt.Fprintf(&out, " (gang: %d placed, %d missing)", w.PodsPlaced, w.PodsMissing)
		}
		fmt.Fprintf(&out, " waits for %s: %v", p.time.Sub(w.Since), w.Pods)
		for _, name := range slices.Sorted(maps.Keys(w.Asks)) {
			if q := w.Asks[name]; name == "gpu" {
				fmt.Fprintf(&out, " asks %s gpu", q.String())
			}
		}
		fmt.Fprintf(&out, " %s\n", w.Reason.Code)
	}
	return out.String()
}
