// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	"github.com/fairslice/fairslice/core/amount"
)

// NoLeaf says that a queue does not exist, or that it runs no workloads itself
// because other queues are below it.
func NoLeaf(queue string, exists bool) Reason {
	if exists {
		return Reason{
			Code: QueueNotLeaf, Queue: queue,
			Message: fmt.Sprintf("queue %s: it has queues below it and runs no workloads itself; name one of those", queue),
		}
	}
	return Reason{
		Code: QueueDoesNotExist, Queue: queue,
		Message: fmt.Sprintf("queue %s does not exist, or a queue above it does not", queue),
	}
}

// GangShort says that a gang lacks members, gated ones not counted.
func GangShort(workload string, missing, gated int) Reason {
	held := ""
	if gated > 0 {
		held = fmt.Sprintf("; %s held back by a scheduling gate", count(gated, "pod is", "pods are"))
	}
	return Reason{
		Code: GangNotReady, Missing: missing,
		Message: fmt.Sprintf("gang %s: %s to reach its minimum%s", workload, count(missing, "pod is missing", "pods are missing"), held),
	}
}

// StrayPod says that a pod belongs to no sub-group of its workload.
func StrayPod(workload, subGroup string) Reason {
	what := fmt.Sprintf("pods name the sub-group %q, which it does not have", subGroup)
	if subGroup == "" {
		what = "pods name no sub-group, and it has some"
	}
	return Reason{Code: UnknownSubGroup, Message: fmt.Sprintf("workload %s: %s", workload, what)}
}

// AtShare says why a queue may not take room back from others, to follow the
// reason why there is none.
func AtShare(queue, resource string, allocated, share amount.Amount) string {
	return fmt.Sprintf("queue %s may not reclaim that much: it holds %s of its fair share of %s", queue, Number(resource, allocated), Quantity(resource, share))
}

// NotTried says that no action of this cycle looked at the workload.
func NotTried() Reason {
	return Reason{Code: NoNodeFits, Message: "not looked at in this cycle"}
}

// RoomNotFree says that a place is booked whose room others still hold.
func RoomNotFree(node string, victims bool, names, uids []string) Reason {
	r := Reason{Code: WaitingForRelease, Victims: uids}
	what := "being released by"
	if victims {
		r.Code, what = WaitingForVictims, "being taken from"
	}
	if len(names) == 0 {
		r.Message = fmt.Sprintf("room is booked, first on node %s; the gang waits until all of it is free", node)
		return r
	}
	const shown = 5
	more := ""
	if len(names) > shown {
		more = fmt.Sprintf(" and %d more", len(names)-shown)
		names = names[:shown]
	}
	r.Message = fmt.Sprintf("room is booked, first on node %s, and is %s %s%s", node, what, strings.Join(names, ", "), more)
	return r
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Noun names a resource in the plural.
func Noun(resource string) string {
	if resource == "memory" {
		return "memory"
	}
	return noun(resource, false)
}
