// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/capacity"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/place"
	"github.com/fairslice/fairslice/core/topology"
)

// allocate places waiting pods in room that is free or being released.
func (d *decider) allocate() {
	clear(d.hopeless)
	w := newWalk(d, d.backlog(), waiting)
	for j := w.next(); j != nil; j = w.next() {
		mark := d.c.Mark()
		reason := d.tryChunk(j)
		if reason != nil {
			d.c.Undo(mark)
			d.reasons[j.w] = reason
			w.done(false)
			continue
		}
		d.holdBackGang(j.w)
		w.done(true)
	}
}

// tryChunk places a job's chunk, or says why it cannot. On failure the caller
// undoes what was placed.
func (d *decider) tryChunk(j *job) *explain.Reason {
	if reason := d.withinCapacity(j); reason != nil {
		return reason
	}
	return d.placeTasks(j, false)
}

// withinCapacity checks the limits and quotas of a job's queues for its chunk.
func (d *decider) withinCapacity(j *job) *explain.Reason {
	need := j.need
	for _, p := range j.tasks {
		if p.Shape.Memory {
			need = d.leastNeed(j)
			break
		}
	}
	return capacity.Check(d.t, j.w.Queue, need, j.w.Spec.Preemptible)
}

// placeTasks places all tasks of a chunk; with later it only books room.
func (d *decider) placeTasks(j *job, later bool) *explain.Reason {
	p := placing{d: d, j: j, later: later}
	if !j.constrained() {
		return p.leaf(j.tasks, topology.Set{})
	}
	return p.group(0, topology.Set{})
}

// constrained says whether topology bears on a job.
func (j *job) constrained() bool {
	for i := range j.w.Groups {
		if j.w.Groups[i].Topology != nil {
			return true
		}
	}
	return false
}

// placing is one attempt to place a chunk. With later it only books room, and
// a failure is not explained.
type placing struct {
	d     *decider
	j     *job
	later bool
}

// group places the tasks of a sub-group and of those below it within a set of
// nodes, trying the candidate domains of its own constraint in turn.
func (p *placing) group(group int, within topology.Set) *explain.Reason {
	w := p.j.w
	g := &w.Groups[group]
	var tasks []*model.LivePod
	for _, t := range p.j.tasks {
		if w.Within(t.Group, group) {
			tasks = append(tasks, t)
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	if g.Topology == nil {
		return p.inside(group, tasks, within)
	}
	sets, reason := topology.Candidates(p.d.c, g.Topology, tasks, within.Nodes, p.hosts(group))
	for _, set := range sets {
		if set.Rank == nil {
			set.Rank = within.Rank
		}
		mark := p.d.c.Mark()
		failure := p.inside(group, tasks, set)
		if failure == nil {
			return nil
		}
		p.d.c.Undo(mark)
		if reason == nil {
			reason = failure
		}
	}
	return reason
}

func (p *placing) inside(group int, tasks []*model.LivePod, set topology.Set) *explain.Reason {
	g := &p.j.w.Groups[group]
	if g.Leaf {
		return p.leaf(tasks, set)
	}
	for _, child := range g.Children {
		if reason := p.group(child, set); reason != nil {
			return reason
		}
	}
	return nil
}

// hosts are the nodes of a sub-group's pods that have their place already.
func (p *placing) hosts(group int) []*model.LiveNode {
	var nodes []*model.LiveNode
	for _, q := range p.j.w.Pods {
		if q.Phase.Active() && q.Group >= 0 && p.j.w.Within(q.Group, group) {
			nodes = append(nodes, q.Node)
		}
	}
	return nodes
}

// leaf places tasks one by one.
func (p *placing) leaf(tasks []*model.LivePod, set topology.Set) *explain.Reason {
	memo := !p.later && set.Nodes == nil && p.sameShape(tasks)
	if memo {
		if h, ok := p.d.hopeless[tasks[0].Shape]; ok && len(tasks) >= h.pods {
			return h.reason(p.d, p.j)
		}
	}
	for i, t := range tasks {
		if reason := p.one(t, set); reason != nil {
			if reason != &noNode || p.later {
				return reason
			}
			h := hopelessness{len(tasks), p.d.noRoom(t, i, set), map[int]*explain.Reason{}}
			if memo {
				p.d.hopeless[t.Shape] = h
			}
			return h.reason(p.d, p.j)
		}
	}
	return nil
}

// sameShape says whether what one such chunk learns holds for the next.
func (p *placing) sameShape(tasks []*model.LivePod) bool {
	for _, t := range tasks {
		if t.Shape != tasks[0].Shape || t.HasAffinity() || p.d.c.ChargeVaries(t.Shape) {
			return false
		}
	}
	return true
}

// noNode is a marker that noRoom turns into a reason with numbers.
var noNode = explain.Reason{Code: explain.NoNodeFits}

func (p *placing) one(t *model.LivePod, set topology.Set) *explain.Reason {
	q := place.Query{Pod: t, Nodes: set.Nodes, Rank: set.Rank}
	var refused *explain.Reason
	if p.d.c.ChargeVaries(t.Shape) {
		q.Allow = func(n *model.LiveNode, holds []model.GPUHold) bool {
			r := capacity.Check(p.d.t, p.j.w.Queue, p.d.c.ChargeAt(t.Shape, n, holds), p.j.w.Spec.Preemptible)
			if r != nil {
				refused = r
			}
			return r == nil
		}
	}
	choice, ok := place.Best(p.d.c, q)
	if !ok {
		if refused != nil {
			return refused
		}
		return &noNode
	}
	if t.Phase == model.Leaving {
		p.d.c.Resettle(t, choice.Node, choice.Holds)
	} else {
		place.Put(p.d.c, t, choice, p.later)
	}
	return nil
}

// holdBackGang is rule 6 of allocation: while a gang has its minimum only with
// room that is still being released, none of it starts. The same holds for each
// sub-group that its gang can do without.
func (d *decider) holdBackGang(w *model.LiveWorkload) { d.holdBack(w, 0) }

func (d *decider) holdBack(w *model.LiveWorkload, group int) {
	if w.Satisfied(group, true) {
		for _, child := range w.Groups[group].Children {
			d.holdBack(w, child)
		}
		return
	}
	within := func(p *model.LivePod) bool { return group == 0 || p.Group >= 0 && w.Within(p.Group, group) }
	if !slices.ContainsFunc(w.Pods, func(p *model.LivePod) bool { return awaitsRoom(p) && within(p) }) {
		return
	}
	for _, p := range w.Pods {
		if within(p) && p.Phase == model.Started && d.home(p).Phase != model.Started {
			d.c.Move(p, model.Place{Phase: model.Awaiting, Node: p.Node, Held: p.Held})
		}
	}
}
