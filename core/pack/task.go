// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"cmp"
	"slices"
)

// Whole is all of one GPU.
const Whole = 1000

// Models is a set of GPU models by index; 0 means any model.
type Models uint64

// Has reports whether the set allows a model.
func (m Models) Has(model int) bool { return m == 0 || m>>uint(model)&1 == 1 }

// Task is what one task asks for. Tasks that are equal are of one class.
type Task struct {
	CPUMilli, MemoryMiB int64
	// GPUs is 0 for tasks without GPU. Milli is asked of each: Whole, or less
	// if GPUs is 1.
	GPUs  int
	Milli int32
	// Models that are allowed. CPU-only tasks go anywhere.
	Models Models
}

// Demand is the task's GPU demand in thousandths.
func (t *Task) Demand() int64 { return int64(t.GPUs) * int64(t.Milli) }

// Class is a task and how often it is expected, relative to the others.
type Class struct {
	Task
	Weight int64
}

// Node is what a node has left.
type Node struct {
	Model               int
	CPUMilli, MemoryMiB int64
	// Free thousandths of each GPU.
	Free []int32
}

// Take subtracts a task on the given GPUs.
func (n *Node) Take(t *Task, gpus []int) { n.add(t, gpus, -1) }

// Give adds back what Take took.
func (n *Node) Give(t *Task, gpus []int) { n.add(t, gpus, 1) }

func (n *Node) add(t *Task, gpus []int, sign int64) {
	n.CPUMilli += sign * t.CPUMilli
	n.MemoryMiB += sign * t.MemoryMiB
	for _, g := range gpus {
		n.Free[g] += int32(sign) * t.Milli
	}
}

// free sums up the free GPU thousandths, and counts the GPUs that are entirely
// free.
func (n *Node) free() (sum int64, whole int) {
	for _, f := range n.Free {
		sum += int64(f)
		if f == Whole {
			whole++
		}
	}
	return sum, whole
}

// choices calls try with every choice of GPUs that makes a difference: of
// several equally free GPUs, and of entirely free ones, the first.
func (n *Node) choices(t *Task, try func(gpus []int)) {
	if t.CPUMilli > n.CPUMilli || t.MemoryMiB > n.MemoryMiB || !t.Models.Has(n.Model) {
		return
	}
	switch {
	case t.GPUs == 0:
		try(nil)
	case t.GPUs > 1 || t.Milli == Whole:
		gpus := make([]int, 0, t.GPUs)
		for g := 0; g < len(n.Free) && len(gpus) < t.GPUs; g++ {
			if n.Free[g] >= t.Milli {
				gpus = append(gpus, g)
			}
		}
		if len(gpus) == t.GPUs {
			try(gpus)
		}
	default:
		for g, f := range n.Free {
			if f >= t.Milli && !slices.Contains(n.Free[:g], f) {
				try([]int{g})
			}
		}
	}
}

// Classes counts equal tasks. The order does not depend on that of tasks.
func Classes(tasks []Task) []Class {
	counts := map[Task]int64{}
	for _, t := range tasks {
		counts[t]++
	}
	out := make([]Class, 0, len(counts))
	for t, n := range counts {
		out = append(out, Class{t, n})
	}
	slices.SortFunc(out, func(a, b Class) int {
		return cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.Models, b.Models),
			cmp.Compare(a.CPUMilli, b.CPUMilli), cmp.Compare(a.MemoryMiB, b.MemoryMiB))
	})
	return out
}
