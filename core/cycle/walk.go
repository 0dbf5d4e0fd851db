// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"container/heap"
	"slices"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// walk hands out jobs in the order of queues and jobs. After each job its path
// through the queue tree is sorted again, by what is allocated then.
type walk struct {
	d     *decider
	nodes map[int]*walkNode
	roots childHeap
	free  available
	path  []*walkNode
	top   *job
}

// walkNode is a queue with jobs below it.
type walkNode struct {
	turn     order.Turn
	jobs     jobHeap   // of a leaf
	children childHeap // of an inner queue
}

// newWalk sorts jobs, whose workloads are in leaf queues, into the tree.
func newWalk(d *decider, jobs []*job, free available) *walk {
	w := &walk{d: d, nodes: map[int]*walkNode{}, free: free}
	w.roots.t = d.t
	var leaves []int
	for _, j := range jobs {
		d.refresh(j, free)
		if len(j.tasks) == 0 || j.missing > 0 {
			continue
		}
		n := w.nodes[j.w.Queue]
		if n == nil {
			n = w.node(j.w.Queue)
			leaves = append(leaves, j.w.Queue)
		}
		n.jobs = append(n.jobs, j)
	}
	for _, q := range leaves {
		heap.Init(&w.nodes[q].jobs)
	}
	for _, r := range w.roots.nodes {
		w.prepare(r)
	}
	heap.Init(&w.roots)
	return w
}

// node makes the entry of a queue and of those above it.
func (w *walk) node(q int) *walkNode {
	if n, ok := w.nodes[q]; ok {
		return n
	}
	n := &walkNode{turn: order.Turn{Queue: q}}
	n.children.t = w.d.t
	w.nodes[q] = n
	if p := w.d.t.Queues[q].Parent; p != model.NoQueue {
		parent := w.node(p)
		parent.children.nodes = append(parent.children.nodes, n)
	} else {
		w.roots.nodes = append(w.roots.nodes, n)
	}
	return n
}

// prepare sorts a queue's children and finds its best job.
func (w *walk) prepare(n *walkNode) {
	for _, child := range n.children.nodes {
		w.prepare(child)
	}
	heap.Init(&n.children)
	n.refresh()
}

func (n *walkNode) refresh() {
	switch {
	case len(n.jobs) > 0:
		n.turn.Chunk = n.jobs[0].need
	case len(n.children.nodes) > 0:
		n.turn.Chunk = n.children.nodes[0].turn.Chunk
	default:
		n.turn.Chunk = nil
	}
}

func (n *walkNode) empty() bool { return len(n.jobs) == 0 && len(n.children.nodes) == 0 }

// next returns the job whose turn it is, nil at the end. done must be called
// before the next one.
func (w *walk) next() *job {
	for len(w.roots.nodes) > 0 {
		w.path = append(w.path[:0], w.roots.nodes[0])
		n := w.roots.nodes[0]
		for len(n.jobs) == 0 {
			n = n.children.nodes[0]
			w.path = append(w.path, n)
		}
		if w.top = n.jobs[0]; w.top.fixed || w.top.version == w.top.w.Version {
			return w.top
		}
		w.done(true) // others took or gave places meanwhile: it asks for something else
	}
	return nil
}

// done takes the job out, or with again puts it back with its next chunk, and
// sorts its queues by what is allocated now.
func (w *walk) done(again bool) {
	leaf := w.path[len(w.path)-1]
	if again {
		w.d.refresh(w.top, w.free)
		again = len(w.top.tasks) > 0 && w.top.missing == 0
	}
	if again {
		heap.Fix(&leaf.jobs, 0)
	} else {
		heap.Pop(&leaf.jobs)
	}
	for i, n := range slices.Backward(w.path) {
		n.refresh()
		siblings := &w.roots
		if i > 0 {
			siblings = &w.path[i-1].children
		}
		if n.empty() {
			heap.Pop(siblings)
		} else {
			heap.Fix(siblings, 0)
		}
	}
}

// jobHeap has the first job of a leaf on top.
type jobHeap []*job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, j int) bool { return order.Jobs(h[i].key, h[j].key) < 0 }
func (h jobHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *jobHeap) Push(x any)        { *h = append(*h, x.(*job)) }
func (h *jobHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// childHeap has the first of sibling queues on top.
type childHeap struct {
	t     *model.QueueTree
	nodes []*walkNode
}

func (h *childHeap) Len() int { return len(h.nodes) }
func (h *childHeap) Less(i, j int) bool {
	return order.Queues(h.t, h.nodes[i].turn, h.nodes[j].turn) < 0
}
func (h *childHeap) Swap(i, j int) { h.nodes[i], h.nodes[j] = h.nodes[j], h.nodes[i] }
func (h *childHeap) Push(x any)    { h.nodes = append(h.nodes, x.(*walkNode)) }
func (h *childHeap) Pop() any {
	last := h.nodes[len(h.nodes)-1]
	h.nodes = h.nodes[:len(h.nodes)-1]
	return last
}
