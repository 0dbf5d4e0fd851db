// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

// known differences by scenario ID, each with the reason why the answer here
// is the better one.
var known = map[string]string{
	"reclaim-008":  "A queue holds 1 of its share of 2 GPUs, its sibling 3 of 2. KAI reclaims nothing for the small job that would fit the share, because an older one of the same queue, too large for it, decides which queue goes first. Here the small job gets what its queue is due; its room is held for it, so the victim cannot take it back.",
	"fraction-023": "The table counts 0.8 GPUs as granted to a workload whose pods all wait: what a failed attempt left behind. Here a pod that waits is granted nothing.",
}
