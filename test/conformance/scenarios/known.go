// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenarios

// known differences by scenario ID, each with the reason why the answer here
// is the better one.
var known = map[string]string{
	"fraction-023": "The table counts 0.8 GPUs as granted to a workload whose pods all wait: what a failed attempt left behind. Here a pod that waits is granted nothing.",
}
