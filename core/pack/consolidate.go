// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"cmp"
	"slices"
)

const (
	// defaultMaxMoves bounds the tasks moved for one arrival.
	defaultMaxMoves = 8
	// maxTried bounds the nodes tried for one arrival.
	maxTried = 24
)

// makeRoom moves running tasks to other nodes so that a task fits. It tries the
// nodes that lack the least, takes the first on which it works, and leaves
// everything as it was if none does.
func (r *run) makeRoom(task *Task) (node int, gpus []int, moves int, ok bool) {
	if r.failed[*task] == r.changes+1 {
		return -1, nil, 0, false // nothing has changed since it failed
	}
	r.findSlack()
	for _, i := range r.candidates(task) {
		if gpus, moves, ok := r.clear(task, i); ok {
			return i, gpus, moves, true
		}
	}
	r.failed[*task] = r.changes + 1
	return -1, nil, 0, false
}

// candidates are nodes of an allowed model that are large enough, those first
// that lack the least of what the task asks for.
func (r *run) candidates(task *Task) []int {
	type lack struct {
		node  int
		lacks int64
	}
	var all []lack
	for i := range r.cluster.Nodes {
		n := &r.cluster.Nodes[i]
		if !task.Models.Has(n.Model) || len(n.Free) < task.GPUs {
			continue
		}
		_, missing := cheapestGPUs(n, task)
		lacks := missing*scale/Whole + shortfall(task.CPUMilli, n.CPUMilli) + shortfall(task.MemoryMiB, n.MemoryMiB)
		all = append(all, lack{i, lacks})
	}
	slices.SortStableFunc(all, func(a, b lack) int { return cmp.Compare(a.lacks, b.lacks) })
	nodes := make([]int, 0, maxTried)
	for _, l := range all[:min(len(all), maxTried)] {
		nodes = append(nodes, l.node)
	}
	return nodes
}

// shortfall is what is missing, relative to what is asked, in 1/scale.
func shortfall(asked, left int64) int64 {
	if left >= asked || asked == 0 {
		return 0
	}
	return ratio(asked-left, asked)
}

// cheapestGPUs are the GPUs that need the least clearing for the task, and how
// many thousandths must be cleared.
func cheapestGPUs(n *Node, t *Task) (gpus []int, missing int64) {
	order := make([]int, len(n.Free))
	for g := range order {
		order[g] = g
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(n.Free[b], n.Free[a]) })
	for _, g := range order[:t.GPUs] {
		gpus = append(gpus, g)
		missing += int64(max(t.Milli-n.Free[g], 0))
	}
	return gpus, missing
}

// clear moves tasks away from a node until the task fits on the GPUs that need
// the least, and places it. It undoes everything if it cannot.
func (r *run) clear(task *Task, node int) (gpus []int, moves int, ok bool) {
	n := &r.cluster.Nodes[node]
	gpus, _ = cheapestGPUs(n, task)
	var done []move
	for !fitsOn(n, task, gpus) {
		victim := r.victim(task, node, gpus)
		moved := victim != nil && len(done) < r.maxMoves && r.move(victim, node, &done)
		if !moved && (len(done)+2 > r.maxMoves || !r.swap(task, node, gpus, &done)) {
			r.undo(done)
			return nil, 0, false
		}
	}
	r.cluster.Take(task, node, gpus)
	return gpus, len(done), true
}

func fitsOn(n *Node, t *Task, gpus []int) bool {
	return n.CPUMilli >= t.CPUMilli && n.MemoryMiB >= t.MemoryMiB &&
		!slices.ContainsFunc(gpus, func(g int) bool { return n.Free[g] < t.Milli })
}

// victim is the task to move next: while a GPU is short, the smallest task on
// it that makes enough room, or else the largest there; while only CPU or
// memory is short, the one that gives the most of it for the least GPU.
func (r *run) victim(task *Task, node int, gpus []int) *placed {
	n := &r.cluster.Nodes[node]
	short := slices.IndexFunc(gpus, func(g int) bool { return n.Free[g] < task.Milli })
	var best *placed
	var least int64
	for _, p := range r.running[node] {
		var cost int64
		if short >= 0 {
			if !slices.Contains(p.gpus, gpus[short]) {
				continue
			}
			cost = p.task.Demand()
			if p.task.Milli < task.Milli-n.Free[gpus[short]] {
				cost = 1<<30 - cost
			}
		} else {
			relief := min(p.task.CPUMilli, shortage(task.CPUMilli, n.CPUMilli)) + min(p.task.MemoryMiB, shortage(task.MemoryMiB, n.MemoryMiB))
			if relief == 0 {
				continue
			}
			cost = p.task.Demand()*64 - relief
		}
		if best == nil || cost < least {
			best, least = p, cost
		}
	}
	return best
}

func shortage(asked, left int64) int64 { return max(asked-left, 0) }

// move is a task's former place, for undo.
type move struct {
	task *placed
	node int
	gpus []int
}

// move places a running task on another node.
func (r *run) move(p *placed, from int, done *[]move) bool {
	node, gpus, ok := r.cluster.placeExcept(&p.task, from)
	if !ok {
		return false
	}
	*done = append(*done, move{p, p.node, p.gpus})
	r.cluster.Give(&p.task, p.node, p.gpus)
	r.rehome(p, node, gpus)
	return true
}

func (r *run) rehome(p *placed, node int, gpus []int) {
	r.running[p.node] = slices.DeleteFunc(r.running[p.node], func(x *placed) bool { return x == p })
	p.node, p.gpus = node, gpus
	r.running[node] = append(r.running[node], p)
}

func (r *run) undo(done []move) {
	for _, m := range slices.Backward(done) {
		r.cluster.Give(&m.task.task, m.task.node, m.task.gpus)
		r.rehome(m.task, m.node, m.gpus)
		r.cluster.Take(&m.task.task, m.node, m.gpus)
	}
}
