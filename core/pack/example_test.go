// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"fmt"

	"github.com/fairslice/fairslice/core/pack"
)

// A scheduler that has nodes of its own asks a Scorer what a place would cost:
// half a GPU goes beside the other half, not into the GPU that is whole.
func ExampleScorer() {
	nodes := []pack.Node{
		{CPUMilli: 8000, MemoryMiB: 8000, Free: []int32{1000, 500}},
		{CPUMilli: 8000, MemoryMiB: 8000, Free: []int32{1000, 1000}},
	}
	half := pack.Task{CPUMilli: 1000, MemoryMiB: 1000, GPUs: 1, Milli: 500}
	pair := pack.Task{CPUMilli: 1000, MemoryMiB: 1000, GPUs: 2, Milli: pack.Whole}
	expected := []pack.Class{{Task: half, Weight: 3}, {Task: pair, Weight: 1}}

	scorer := pack.NewScorer(pack.ExpectedFill, expected, nodes)
	var costs [2]int64
	for i := range nodes {
		cost, gpus, ok := scorer.Cost(&nodes[i], scorer.Value(&nodes[i]), &half, nil)
		fmt.Println("node", i, "GPU", gpus, "fits:", ok)
		costs[i] = cost
	}
	fmt.Println("node 0 costs less:", costs[0] < costs[1])
	// Output:
	// node 0 GPU [1] fits: true
	// node 1 GPU [0] fits: true
	// node 0 costs less: true
}
