// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"container/heap"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// mercy is what a claimant may take of a victim workload.
type mercy int8

const (
	spare       mercy = iota // nothing
	surplusOnly              // what it can do without
	takeAll
)

// victim is a running workload in the order in which victims are chosen.
type victim struct {
	w   *model.LiveWorkload
	key order.Job
}

// victimIndex lists the running preemptible workloads of each leaf queue, in
// the reverse of job order. It serves all searches of an action.
type victimIndex struct {
	byLeaf map[int][]victim
	leaves []int
	stale  map[int]bool
}

func (d *decider) indexVictims() *victimIndex {
	x := &victimIndex{byLeaf: map[int][]victim{}, stale: map[int]bool{}}
	for _, set := range []int{model.SetRunning, model.SetBacklog} {
		for _, w := range d.c.Members(set) {
			if w.Queue == model.NoQueue || !w.Spec.Preemptible || w.Active == 0 || set == model.SetBacklog && w.Running() {
				continue
			}
			x.byLeaf[w.Queue] = append(x.byLeaf[w.Queue], victim{w, keyOf(w)})
		}
	}
	for leaf, vs := range x.byLeaf {
		slices.SortFunc(vs, reverseJobs)
		x.leaves = append(x.leaves, leaf)
	}
	slices.Sort(x.leaves)
	return x
}

// victimsOf lists the victims of a leaf queue.
func (d *decider) victimsOf(leaf int) []victim {
	d.victimLeaves()
	return d.victims.of(leaf)
}

// victimLeaves lists the queues that have victims. An action that finds no
// claimant does not index them.
func (d *decider) victimLeaves() []int {
	if d.victims == nil {
		d.victims = d.indexVictims()
	}
	return d.victims.leaves
}

func reverseJobs(a, b victim) int { return order.Jobs(b.key, a.key) }

// of returns a leaf's victims, sorted again after searches that changed how
// some stand to their minimum. Of those that are gone only the first are left
// out.
func (x *victimIndex) of(leaf int) []victim {
	vs := x.byLeaf[leaf]
	if x.stale[leaf] {
		delete(x.stale, leaf)
		vs = slices.DeleteFunc(vs, func(v victim) bool { return v.w.Active == 0 })
		for i := range vs {
			vs[i].key = keyOf(vs[i].w)
		}
		slices.SortFunc(vs, reverseJobs)
	}
	for len(vs) > 0 && vs[0].w.Active == 0 {
		vs = vs[1:]
	}
	x.byLeaf[leaf] = vs
	return vs
}

// stream hands out units of victims: of the queue that is served last, the
// workload that is served last, what it can do without before the rest. What
// was handed out counts as gone for the order of queues.
type stream struct {
	d        *decider
	claimant *model.LiveWorkload // never a victim of itself
	nodes    map[int]*victimNode
	roots    victimHeap
	// judge says what may be taken of a workload, open whether a leaf queue
	// has anything that may be taken at all.
	judge func(w *model.LiveWorkload) mercy
	open  func(leaf int) bool
	ahead *unit
	peels map[*model.LiveWorkload]*peel
}

type victimNode struct {
	turn     order.Turn
	list     []victim   // of a leaf, not handed out yet
	again    againHeap  // elastic ones put back
	children victimHeap // of an inner queue
}

// newStream orders queues by the accounts of t, which must not change while
// victims are handed out: what an attempt took would count as gone twice.
func newStream(d *decider, t *model.QueueTree, claimant *model.LiveWorkload, leaves []int, judge func(w *model.LiveWorkload) mercy, open func(leaf int) bool) *stream {
	s := &stream{d: d, claimant: claimant, nodes: map[int]*victimNode{}, judge: judge, open: open, peels: map[*model.LiveWorkload]*peel{}}
	s.roots.t = t
	for _, leaf := range leaves {
		if open == nil || open(leaf) {
			s.node(leaf).list = d.victimsOf(leaf)
		}
	}
	for _, r := range s.roots.nodes {
		s.prepare(r)
	}
	heap.Init(&s.roots)
	return s
}

func (s *stream) node(q int) *victimNode {
	if n, ok := s.nodes[q]; ok {
		return n
	}
	n := &victimNode{turn: order.Turn{Queue: q}}
	n.children.t = s.roots.t
	s.nodes[q] = n
	if p := s.d.t.Queues[q].Parent; p != model.NoQueue {
		parent := s.node(p)
		parent.children.nodes = append(parent.children.nodes, n)
	} else {
		s.roots.nodes = append(s.roots.nodes, n)
	}
	return n
}

func (s *stream) prepare(n *victimNode) {
	for _, child := range n.children.nodes {
		s.prepare(child)
	}
	heap.Init(&n.children)
}

// peek says whether there is another unit.
func (s *stream) peek() bool {
	if s.ahead == nil {
		s.ahead = s.pop()
	}
	return s.ahead != nil
}

// next returns the next unit, nil at the end.
func (s *stream) next() *unit {
	if !s.peek() {
		return nil
	}
	u := s.ahead
	s.ahead = nil
	return u
}

func (s *stream) pop() *unit {
	for len(s.roots.nodes) > 0 {
		path := []*victimNode{s.roots.nodes[0]}
		for {
			n := path[len(path)-1]
			if len(n.children.nodes) == 0 {
				break
			}
			path = append(path, n.children.nodes[0])
		}
		leaf := path[len(path)-1]
		var u *unit
		if s.open == nil || s.open(leaf.turn.Queue) {
			u = s.fromLeaf(leaf)
		} else {
			leaf.list, leaf.again = nil, nil
		}
		s.resort(path, u)
		if u != nil {
			return u
		}
	}
	return nil
}

// resort deducts a unit along its path and sorts the queues again.
func (s *stream) resort(path []*victimNode, u *unit) {
	var cost amount.Vector
	if u != nil {
		cost = s.d.cost(u.pods)
	}
	for i, n := range slices.Backward(path) {
		if u != nil {
			n.turn.Released = amount.Sum(n.turn.Released, cost)
		}
		siblings := &s.roots
		if i > 0 {
			siblings = &path[i-1].children
		}
		if len(n.list)+len(n.again)+len(n.children.nodes) == 0 {
			heap.Pop(siblings)
		} else {
			heap.Fix(siblings, 0)
		}
	}
}

// fromLeaf takes a unit of the workload that the leaf serves last; nil if all
// that is left there is spared.
func (s *stream) fromLeaf(n *victimNode) *unit {
	for len(n.list)+len(n.again) > 0 {
		var v victim
		if len(n.again) == 0 || len(n.list) > 0 && reverseJobs(n.list[0], n.again[0]) < 0 {
			v, n.list = n.list[0], n.list[1:]
		} else {
			v = heap.Pop(&n.again).(victim)
		}
		if v.w.Active == 0 || v.w == s.claimant || s.d.won[v.w] {
			continue
		}
		m := s.judge(v.w)
		if m == spare {
			continue
		}
		p := s.peels[v.w]
		if p == nil {
			p = newPeel(v.w)
			s.peels[v.w] = p
		}
		u := p.next(m == surplusOnly)
		if u == nil {
			continue
		}
		if !u.core {
			v.key.Fill = p.fill()
			heap.Push(&n.again, v)
		}
		return u
	}
	return nil
}

// victimHeap has the sibling queue that is served last on top.
type victimHeap struct {
	t     *model.QueueTree
	nodes []*victimNode
}

func (h *victimHeap) Len() int { return len(h.nodes) }
func (h *victimHeap) Less(i, j int) bool {
	return order.Queues(h.t, h.nodes[i].turn, h.nodes[j].turn) > 0
}
func (h *victimHeap) Swap(i, j int) { h.nodes[i], h.nodes[j] = h.nodes[j], h.nodes[i] }
func (h *victimHeap) Push(x any)    { h.nodes = append(h.nodes, x.(*victimNode)) }
func (h *victimHeap) Pop() any {
	last := h.nodes[len(h.nodes)-1]
	h.nodes = h.nodes[:len(h.nodes)-1]
	return last
}

// againHeap has the victim that is chosen first on top.
type againHeap []victim

func (h againHeap) Len() int           { return len(h) }
func (h againHeap) Less(i, j int) bool { return reverseJobs(h[i], h[j]) < 0 }
func (h againHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *againHeap) Push(x any)        { *h = append(*h, x.(victim)) }
func (h *againHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
