// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "slices"

// SetWorkload adds a workload or replaces it; its pods may be known already.
func (c *Cluster) SetWorkload(w Workload) error {
	if err := checkWorkload(&w); err != nil {
		return err
	}
	live := c.workloadFor(w.Key)
	live.Spec = &w
	c.touchWork(live)
	return nil
}

// RemoveWorkload forgets a workload; pods of it stay known and take up room.
func (c *Cluster) RemoveWorkload(key string) {
	if w, ok := c.workloads[key]; ok && w.Spec != nil {
		w.Spec = nil
		c.touchWork(w)
	}
}

// workloadFor finds or makes the entry of a workload, whose Spec is nil while
// only pods have named it.
func (c *Cluster) workloadFor(key string) *LiveWorkload {
	w, ok := c.workloads[key]
	if !ok {
		w = &LiveWorkload{Queue: NoQueue, inQueue: NoQueue, key: key}
		for i := range w.pos {
			w.pos[i] = -1
		}
		c.workloads[key] = w
	}
	return w
}

// Workload returns a workload as it was set.
func (c *Cluster) Workload(key string) (Workload, bool) {
	if w, ok := c.workloads[key]; ok && w.Spec != nil {
		return *w.Spec, true
	}
	return Workload{}, false
}

// Workloads calls f for every workload in key order until f returns false.
func (c *Cluster) Workloads(f func(Workload) bool) {
	for _, key := range sortedKeys(c.workloads) {
		if w := c.workloads[key]; w.Spec != nil && !f(*w.Spec) {
			return
		}
	}
}

// SetPod adds a pod or replaces the one with the same UID.
func (c *Cluster) SetPod(p Pod) error {
	if err := checkPod(&p); err != nil {
		return err
	}
	live, ok := c.pods[p.UID]
	if ok {
		c.detach(live)
	} else {
		live = &LivePod{}
		c.pods[p.UID] = live
	}
	live.Spec = &p
	live.Shape = c.shapeOf(&p)
	live.Shape.refs++
	c.mixEpoch++
	if len(c.terms) > 0 {
		live.Matches = c.matchTerms(p.Labels)
	}
	live.Workload = c.workloadFor(p.Workload)
	live.Workload.all = append(live.Workload.all, live)
	c.touchWork(live.Workload)
	if p.State.HoldsRoom() {
		live.Home = Place{Phase: homePhase(p.State), Node: c.nodeFor(p.Node)}
		live.Home.Node.Pods = append(live.Home.Node.Pods, live)
		c.touchNode(live.Home.Node, false)
	}
	return nil
}

// RemovePod forgets a pod and frees what it holds.
func (c *Cluster) RemovePod(uid string) {
	if live, ok := c.pods[uid]; ok {
		c.detach(live)
		delete(c.pods, uid)
		c.sweepShapes()
	}
}

// detach takes a pod out of its node and its workload.
func (c *Cluster) detach(p *LivePod) {
	w := p.Workload
	w.all = slices.DeleteFunc(w.all, func(q *LivePod) bool { return q == p })
	c.touchWork(w)
	if n := p.Home.Node; n != nil {
		n.Pods = slices.DeleteFunc(n.Pods, func(q *LivePod) bool { return q == p })
		c.touchNode(n, false)
	}
	p.Shape.refs--
	c.mixEpoch++
	*p = LivePod{}
}

// HoldsRoom says whether a pod in this state takes up room on a node.
func (s PodState) HoldsRoom() bool {
	return s == Promised || s == Bound || s == Releasing || s == Stuck
}

func homePhase(s PodState) Phase {
	switch s {
	case Promised:
		return Awaiting
	case Bound:
		return Started
	case Releasing:
		return Leaving
	case Stuck:
		return Jammed
	}
	return Idle
}

// Pod returns a pod as it was set.
func (c *Cluster) Pod(uid string) (Pod, bool) {
	if p, ok := c.pods[uid]; ok {
		return *p.Spec, true
	}
	return Pod{}, false
}

// Pods calls f for every pod in UID order until f returns false.
func (c *Cluster) Pods(f func(Pod) bool) {
	for _, uid := range sortedKeys(c.pods) {
		if !f(*c.pods[uid].Spec) {
			return
		}
	}
}

// PodsOf calls f for the pods of a workload in UID order until f returns
// false.
func (c *Cluster) PodsOf(workload string, f func(Pod) bool) {
	w, ok := c.workloads[workload]
	if !ok {
		return
	}
	all := slices.Clone(w.all)
	slices.SortFunc(all, byUID)
	for _, p := range all {
		if !f(*p.Spec) {
			return
		}
	}
}

func byUID(a, b *LivePod) int { return compareStrings(a.Spec.UID, b.Spec.UID) }

// sweepShapes forgets shapes that no pod has had for a while, so that a
// long-running process does not collect them.
func (c *Cluster) sweepShapes() {
	const slack = 256
	if len(c.shapes) < slack+2*c.shapesKept {
		return
	}
	c.shapesKept = 0
	for key, s := range c.shapes {
		if s.refs == 0 {
			delete(c.shapes, key)
		} else {
			c.shapesKept++
		}
	}
	c.sweepTerms()
}

// Sets of workloads that decisions start from.
const (
	// SetBacklog has pods that wait for the plan.
	SetBacklog = iota
	// SetRunning has pods that book room.
	SetRunning
	// SetPromised has pods with a promise from an earlier plan.
	SetPromised
	// SetShort runs in part: see LiveWorkload.Broken.
	SetShort
	numSets
)

// Members lists the workloads of a set, in no order: the caller sorts them.
func (c *Cluster) Members(set int) []*LiveWorkload { return c.sets[set] }

// Running says whether a workload is in SetRunning.
func (w *LiveWorkload) Running() bool { return w.pos[SetRunning] >= 0 }

func (c *Cluster) setMember(set int, w *LiveWorkload, in bool) {
	at := w.pos[set]
	if in == (at >= 0) {
		return
	}
	s := c.sets[set]
	if in {
		w.pos[set] = len(s)
		c.sets[set] = append(s, w)
		return
	}
	last := s[len(s)-1]
	s[at], last.pos[set] = last, at
	c.sets[set] = s[:len(s)-1]
	w.pos[set] = -1
}
