// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/test/stack"
)

// outcome is what the demo announces for a pod.
type outcome string

const (
	runs    outcome = "runs"
	waits   outcome = "waits"
	refused outcome = "is refused"
)

// item is one pod of the demo with what it shows.
type item struct {
	pod    *corev1.Pod
	shows  string
	expect outcome
	// because is a part of the sentence that a waiting or refused pod must get.
	because string
}

func nodes() []stack.GPUNode {
	return []stack.GPUNode{
		stack.A100("sim-a100-0", 4), stack.A100("sim-a100-1", 4),
		stack.H100("sim-h100-0", 4), stack.H100("sim-h100-1", 4),
	}
}

// queue is a queue of the demo, parents first.
type queue struct {
	name string
	spec map[string]any
}

func queues() []queue {
	gpu := func(v any) map[string]any { return map[string]any{"gpu": v} }
	return []queue{
		{"research", map[string]any{"quota": gpu(16)}},
		{"vision", map[string]any{"parent": "research", "quota": gpu(4), "limit": gpu(6)}},
		{"language", map[string]any{"parent": "research", "quota": gpu(10)}},
	}
}

const gangName = "pretrain"

func items() []item {
	list := []item{
		{pod: stack.Pod("train", stack.Queue("vision"), stack.Whole(2)), shows: "two whole GPUs", expect: runs},
		{pod: stack.Pod("notebook-0", stack.Queue("vision"), stack.Slice(25)), shows: "a quarter of a GPU", expect: runs},
		{pod: stack.Pod("notebook-1", stack.Queue("vision"), stack.Slice(25)), shows: "another quarter: same GPU", expect: runs},
		{pod: stack.Pod("serve", stack.Queue("vision"), stack.MemoryGiB(20)), shows: "20 GiB of a GPU, whatever its model", expect: runs},
		{pod: stack.Pod("pair", stack.Queue("language"), stack.Slice(100), stack.OverGPUs(2)), shows: "half of each of two GPUs", expect: runs},
	}
	for i := range 8 {
		list = append(list, item{
			pod:   stack.Pod(fmt.Sprintf("%s-%d", gangName, i), stack.Queue("language"), stack.Gang(gangName), stack.Whole(1)),
			shows: "member of a gang of 8: all or none", expect: runs,
		})
	}
	return append(list,
		item{
			pod: stack.Pod("greedy", stack.Queue("vision"), stack.Whole(4)), shows: "more than its queue may hold",
			expect: waits, because: "limit of 6 GPUs",
		},
		item{
			pod: stack.Pod("lost", stack.Queue("visoin"), stack.Whole(1)), shows: "a queue that does not exist",
			expect: waits, because: `queue visoin does not exist`,
		},
		item{
			pod: stack.Pod("malformed", stack.Queue("vision"), stack.Slice(150)), shows: "one and a half GPUs in one slice",
			expect: refused, because: "gpu-slice",
		})
}

// submit creates everything, and calls each after each pod.
func submit(ctx context.Context, s *stack.Stack, list []item, each func(refusals map[string]string)) (map[string]string, error) {
	for _, q := range queues() {
		if err := s.CreateQueue(ctx, q.name, q.spec); err != nil {
			return nil, fmt.Errorf("queue %s: %w", q.name, err)
		}
	}
	gang := map[string]any{"queue": "language", "minMember": int64(8)}
	if err := s.CreatePodGroup(ctx, gangName, gang); err != nil {
		return nil, fmt.Errorf("pod group %s: %w", gangName, err)
	}
	refusals := map[string]string{}
	for _, it := range list {
		if _, err := s.CreatePod(ctx, it.pod); err != nil {
			refusals[it.pod.Name] = err.Error()
		}
		each(refusals)
	}
	return refusals, nil
}
