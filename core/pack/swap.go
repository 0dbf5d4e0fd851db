// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"cmp"
	"slices"
)

// maxSlack bounds the nodes that are looked at for a swap.
const maxSlack = 96

// findSlack lists the nodes with the most CPU left: only there is room for what
// a full node wants to be rid of.
func (r *run) findSlack() {
	r.slack = r.slack[:0]
	for i := range r.cluster.Nodes {
		r.slack = append(r.slack, i)
	}
	slices.SortStableFunc(r.slack, func(a, b int) int {
		return cmp.Compare(r.cluster.Nodes[b].CPUMilli, r.cluster.Nodes[a].CPUMilli)
	})
	r.slack = r.slack[:min(len(r.slack), maxSlack)]
}

// exchange is a pair of tasks that trade places, and how much CPU and memory
// that gives the node of the first.
type exchange struct {
	here, there *placed
	relief      int64
	milli       int32
}

// swap trades a task of the node for a smaller one of another node. While a GPU
// is short it must give all that is missing there; while CPU or memory is
// short, as much as possible. Both tasks keep running somewhere: two moves.
func (r *run) swap(task *Task, node int, gpus []int, done *[]move) bool {
	n := &r.cluster.Nodes[node]
	short := slices.IndexFunc(gpus, func(g int) bool { return n.Free[g] < task.Milli })
	var best exchange
	for _, here := range r.running[node] {
		if here.task.GPUs != 1 || short >= 0 && here.gpus[0] != gpus[short] {
			continue
		}
		var need int32
		if short >= 0 {
			need = task.Milli - n.Free[gpus[short]]
		}
		for _, other := range r.slack {
			if other == node {
				continue
			}
			for _, there := range r.running[other] {
				x, ok := r.trade(task, n, here, there, need)
				if ok && (best.here == nil || x.relief > best.relief || x.relief == best.relief && x.milli < best.milli) {
					best = x
				}
			}
		}
	}
	if best.here == nil {
		return false
	}
	r.exchange(best, done)
	return true
}

// trade checks one pair: both must fit at the other's place.
func (r *run) trade(task *Task, n *Node, here, there *placed, need int32) (exchange, bool) {
	a, b := &here.task, &there.task
	if b.GPUs != 1 {
		return exchange{}, false
	}
	other := &r.cluster.Nodes[there.node]
	milli, cpu, memory := a.Milli-b.Milli, a.CPUMilli-b.CPUMilli, a.MemoryMiB-b.MemoryMiB
	relief := min(cpu, shortage(task.CPUMilli, n.CPUMilli)) + min(memory, shortage(task.MemoryMiB, n.MemoryMiB))
	switch {
	case milli < need || milli > other.Free[there.gpus[0]]:
	case cpu > other.CPUMilli || memory > other.MemoryMiB:
	case n.CPUMilli+cpu < 0 || n.MemoryMiB+memory < 0:
	case !a.Models.Has(other.Model) || !b.Models.Has(n.Model):
	case need == 0 && relief <= 0:
	default:
		return exchange{here, there, relief, milli}, true
	}
	return exchange{}, false
}

func (r *run) exchange(x exchange, done *[]move) {
	here, there := *x.here, *x.there
	*done = append(*done, move{x.here, here.node, here.gpus}, move{x.there, there.node, there.gpus})
	r.cluster.Give(&here.task, here.node, here.gpus)
	r.cluster.Give(&there.task, there.node, there.gpus)
	r.cluster.Take(&here.task, there.node, there.gpus)
	r.cluster.Take(&there.task, here.node, here.gpus)
	r.rehome(x.here, there.node, there.gpus)
	r.rehome(x.there, here.node, here.gpus)
}
