// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/place"
)

// search looks for victims whose room lets one job be placed. Units of victims
// are collected in the order of the stream; whenever the units on one node
// would make room there for a pod, taking them is tried for real: they are
// evicted, and claimant and victims are placed in the order in which they
// would be served. Victims that find their own room again, or another, are no
// victims.
type search struct {
	d      *decider
	j      *job
	rule   Rule
	stream *stream
	// restart makes the stream anew, without what was taken already.
	restart func() *stream
	// approve has the last word on the units that an attempt would take.
	approve func(taken []*unit) bool
	// moves lets victims be placed elsewhere.
	moves bool
	// ahead places the claimant on the node that is being tried, before any
	// victim: all of these have to find room anyway.
	ahead  bool
	target *model.LiveNode

	whole    bool    // every attempt places all tasks anew
	together bool    // attempts evict also what need not go
	units    []*unit // collected
	onNode   map[*model.LiveNode][]*unit
	taken    []*unit
	surplus  map[*model.LiveWorkload][]*unit
	was      map[*model.LivePod]model.Place // where evicted pods were
	trying   []*unit                        // what the present attempt evicted
	steps    int
	collects int
	again    []*unit // the last that helped, which may help on another node
	blocked  string  // disruption budget that forbade something
	refused  bool    // the last attempt found room and was not approved
	lopsided bool    // an attempt was not approved for rule R12 alone
}

// defaultSteps bounds the attempts of one search.
const defaultSteps = 4096

// suspicion is how many units are collected in vain before it is worth
// looking whether all victims together would help.
const suspicion = 256

// run places the whole chunk or leaves no trace.
func (s *search) run() bool {
	if s.stopped() {
		return false
	}
	mark := s.d.c.Mark()
	used := slices.Clone(s.d.budgetUsed)
	s.whole = s.dependent()
	var ok bool
	if s.whole {
		ok = s.runWhole(mark)
	} else {
		ok = s.runByPod() || s.mixed() && s.runTogether(mark, used)
	}
	if !ok || s.tooFast() {
		s.d.c.Undo(mark)
		s.d.budgetUsed = used
		return false
	}
	return true
}

// dependent says whether the places of a chunk's pods depend on each other.
func (s *search) dependent() bool {
	return s.j.constrained() || slices.ContainsFunc(s.j.tasks, (*model.LivePod).HasAffinity)
}

// mixed says whether the pods of a chunk ask for different things.
func (s *search) mixed() bool {
	return slices.ContainsFunc(s.j.tasks, func(p *model.LivePod) bool { return p.Shape != s.j.tasks[0].Shape })
}

// runByPod finds room for one pod of the chunk after the other.
func (s *search) runByPod() bool {
	s.stream = s.restart()
	s.onNode = map[*model.LiveNode][]*unit{}
	if !s.stream.peek() {
		return false
	}
	var last *model.Shape
	for i := range s.j.tasks {
		tasks := s.j.tasks[i : i+1]
		if !s.findRoom(tasks, last == tasks[0].Shape) {
			return false
		}
		last = tasks[0].Shape
	}
	return true
}

// findRoom places one pod. alike says that the pod before it was of the same
// shape.
func (s *search) findRoom(tasks []*model.LivePod, alike bool) bool {
	if s.direct(tasks) {
		return true
	}
	again := s.units
	if alike {
		again = s.again // the others were in vain for a pod like this
	}
	for _, u := range slices.Clone(again) {
		if !u.taken && s.tryNodes(tasks, u) {
			return true
		}
	}
	for {
		u := s.stream.next()
		if u == nil {
			return s.tryAll(tasks)
		}
		s.collect(u)
		if s.collects++; s.collects == suspicion && s.hopeless() {
			return false
		}
		if s.tryNodes(tasks, u) {
			return true
		}
		if s.steps >= s.limit() {
			return false
		}
	}
}

func (s *search) limit() int {
	if n := s.d.settings.StepLimit; n > 0 {
		return n
	}
	return defaultSteps
}

func (s *search) collect(u *unit) {
	s.units = append(s.units, u)
	if !u.core {
		if s.surplus == nil {
			s.surplus = map[*model.LiveWorkload][]*unit{}
		}
		s.surplus[u.w] = append(s.surplus[u.w], u)
	}
	for _, n := range unitNodes(u) {
		s.onNode[n] = append(s.onNode[n], u)
	}
}

func unitNodes(u *unit) []*model.LiveNode {
	var nodes []*model.LiveNode
	for _, p := range u.pods {
		if p.Node.Index >= 0 && !slices.Contains(nodes, p.Node) {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// direct places pods in room that needs no further victims.
func (s *search) direct(tasks []*model.LivePod) bool {
	mark := s.d.c.Mark()
	part := s.part(tasks)
	if s.d.withinCapacity(part) == nil && s.d.placeTasks(part, true) == nil {
		return true
	}
	s.d.c.Undo(mark)
	return false
}

// part is the claimant with some of its tasks.
func (s *search) part(tasks []*model.LivePod) *job {
	part := &job{w: s.j.w, tasks: tasks, gang: s.j.gang, fixed: true, key: s.j.key}
	s.d.charge(part)
	return part
}

// tryNodes attempts to take what is collected on each node of a unit.
func (s *search) tryNodes(tasks []*model.LivePod, u *unit) bool {
	if s.tightQueue(tasks) {
		// Doubling: an attempt with all that is collected costs as much.
		n := len(s.units)
		return n&(n-1) == 0 && s.attempt(tasks, s.untaken(s.units))
	}
	for _, n := range unitNodes(u) {
		units := s.untaken(s.onNode[n])
		if s.ahead {
			s.target = n
		}
		if s.tryUnits(tasks, n, units) {
			s.again = []*unit{u}
			return true
		}
		// What was refused together may be allowed alone: the units collected
		// before may be those that it was refused for.
		if s.refused && len(units) > 1 && s.tryUnits(tasks, n, []*unit{u}) {
			s.again = []*unit{u}
			return true
		}
	}
	return false
}

// tryAll attempts to take all that is collected, where a limit of the claimant's
// queues is short: what has to go for that may be on any number of nodes.
func (s *search) tryAll(tasks []*model.LivePod) bool {
	units := s.untaken(s.units)
	return len(units) > 0 && s.d.withinCapacity(s.part(tasks)) != nil && s.attempt(tasks, units)
}

// tryUnits attempts to take units on a node if a pod would fit there without.
func (s *search) tryUnits(tasks []*model.LivePod, n *model.LiveNode, units []*unit) bool {
	s.refused = false
	return s.wouldFit(tasks[len(tasks)-1], n, units) && s.attempt(tasks, units)
}

// tightQueue says whether a node has room and only a limit of the claimant's
// queues stands in the way: then it does not matter on which node victims are.
func (s *search) tightQueue(tasks []*model.LivePod) bool {
	return s.d.withinCapacity(s.part(tasks)) != nil && place.Feasible(s.d.c, tasks[0])
}

func (s *search) untaken(units []*unit) []*unit {
	var out []*unit
	for _, u := range units {
		if !u.taken {
			out = append(out, u)
		}
	}
	return out
}

// wouldFit says whether a pod fits a node without the units there.
func (s *search) wouldFit(p *model.LivePod, n *model.LiveNode, units []*unit) bool {
	if fit.Static(s.d.c, p.Shape, n) != fit.Allowed {
		return false
	}
	mark := s.d.c.Mark()
	for _, u := range units {
		for _, v := range u.pods {
			if v.Node == n {
				s.d.c.Evict(v)
			}
		}
	}
	_, later, _ := fit.Room(p.Shape, n)
	s.d.c.Undo(mark)
	return later
}

// attempt evicts units and places claimant and victims in their order. It
// leaves no trace unless the claimant is placed and the victims approved.
func (s *search) attempt(tasks []*model.LivePod, units []*unit) bool {
	s.steps++
	mark := s.d.c.Mark()
	used := slices.Clone(s.d.budgetUsed)
	fail := func() bool {
		s.d.c.Undo(mark)
		s.d.budgetUsed = used
		return false
	}
	units = s.evict(units)
	if len(units) == 0 || !s.settleAll(tasks, units) {
		return fail()
	}
	s.trying = units
	if !s.approve(s.stillOut(units)) {
		s.refused = true
		return fail()
	}
	s.d.budgetUsed = used
	for _, u := range units {
		s.d.chargeBudgets(u)
		if slices.ContainsFunc(u.pods, placedNow) {
			s.d.startPromised(u.w) // it may have another place that is free
			s.d.holdBackGang(u.w)
		}
		s.split(u)
	}
	return true
}

// split moves the pods of a unit that did not get their place back to the
// units that are taken; the others stay collected.
func (s *search) split(u *unit) {
	out := &unit{w: u.w, core: u.core, taken: true}
	var back []*model.LivePod
	for _, p := range u.pods {
		if unsettled(p) {
			out.pods = append(out.pods, p)
		} else {
			back = append(back, p)
		}
	}
	if len(out.pods) > 0 {
		s.taken = append(s.taken, out)
	}
	u.pods, u.taken = back, len(back) == 0
}

// stillOut lists the parts of units that found no room at all.
func (s *search) stillOut(units []*unit) []*unit {
	var out []*unit
	for _, u := range units {
		left := unit{w: u.w, core: u.core}
		for _, p := range u.pods {
			if !p.Phase.Active() {
				left.pods = append(left.pods, p)
			}
		}
		if len(left.pods) > 0 {
			out = append(out, &left)
		}
	}
	return out
}

// unsettled says whether a pod is not where it was before the search.
func unsettled(p *model.LivePod) bool {
	return !p.Phase.Active() || p.From != p.Home.From || p.Home.Node != nil && p.Node != p.Home.Node
}

// hopeless says whether not even all victims together would make room.
func (s *search) hopeless() bool {
	mark := s.d.c.Mark()
	defer s.d.c.Undo(mark)
	all := s.restart()
	for u := all.next(); u != nil; u = all.next() {
		for _, p := range u.pods {
			if p.Phase.Active() {
				s.d.c.Evict(p)
			}
		}
	}
	rest := s.part(nil)
	for _, p := range s.j.tasks {
		if waiting(p) {
			rest.tasks = append(rest.tasks, p)
		}
	}
	s.d.charge(rest)
	return s.d.withinCapacity(rest) != nil || s.d.placeTasks(rest, true) != nil
}

// commit notes for every pod that lost its place who took it and why. Room that
// a claimant won earlier in this cycle, and loses now, passes to the new one.
func (s *search) commit(why func(p *model.LivePod) explain.Reason) {
	s.keepTempo()
	for _, u := range s.taken {
		if u.w.Active > 0 {
			s.d.victims.stale[u.w.Queue] = true
		}
		for _, p := range u.pods {
			r := why(p)
			if s.d.home(p).Phase != model.Idle {
				if s.rule != RuleConsolidate {
					s.d.won[s.j.w], s.d.winners[s.j.w] = true, true
				}
				if v := s.d.evicted[p]; v == nil || v.rule == RuleConsolidate { // else it only loses where it was to go
					s.d.evicted[p] = &verdict{rule: s.rule, by: s.j.w, reason: r}
				}
				continue
			}
			s.d.reasons[u.w] = &r
			s.passOn(u.w)
		}
	}
}

// served says whether a workload gets a place in this cycle.
func (d *decider) served(w *model.LiveWorkload) bool {
	return slices.ContainsFunc(w.Pods, func(p *model.LivePod) bool { return p.Phase.Active() && d.home(p).Phase != model.Started })
}

// passOn makes the claimant the one for whom others were moved before, on behalf of
// somebody who makes room for it now, and evicted, if that one has no place left.
func (s *search) passOn(from *model.LiveWorkload) {
	for p, v := range s.d.evicted {
		switch {
		case v.by != from:
		case v.rule == RuleConsolidate && p.Phase.Active():
			v.by, v.reason = s.j.w, explain.Moved(s.j.w.Spec.Key, p.Node.Spec.Name)
		case !s.d.served(from):
			v.by, v.reason = s.j.w, explain.PassedOn(v.reason, s.j.w.Spec.Key)
		}
	}
}
