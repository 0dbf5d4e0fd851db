// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/core/model"
)

// roll counts members by sub-group, under "" where there are none.
type roll map[string]int

func (t roll) sum() (n int) {
	for _, k := range t {
		n += k
	}
	return n
}

// heads counts the members of a gang. done have ended well; they count in all
// others as well, but not in members, which are the pods that have not ended.
type heads struct {
	members, done roll
	// held have a place promised at least, alive are about to be bound or more,
	// bound have a node, running run. Pods on their way out are in none, a pod
	// that is being moved counts through the place that is held for it.
	held, alive, bound, running roll
	// lasting is held and who is on the way out, unless stuck there.
	lasting roll
	// placed are the alive members by UID, those that have ended well excepted.
	placed map[string]seat
	// ended are the members that have ended well, by UID.
	ended map[string]bool
}

func (l *Ledger) headsOf(w *workload, spec *model.Workload) heads {
	h := heads{
		members: roll{}, done: roll{}, held: roll{}, alive: roll{}, bound: roll{}, running: roll{}, lasting: roll{},
		placed: map[string]seat{}, ended: map[string]bool{},
	}
	for leaf, n := range w.finished {
		h.finish(leaf, n)
	}
	for uid, e := range w.pods {
		switch leaf := leafOf(spec, e.facts); {
		case e.past:
		case e.state != stateReleased:
			h.take(uid, leaf, e)
		case e.succeeded():
			h.finish(leaf, 1)
			h.ended[uid] = true
		}
	}
	for victim, hold := range l.holds {
		if _, counted := h.placed[victim]; !counted && !hold.lost && hold.facts.workloadKey() == w.key {
			leaf := leafOf(spec, hold.facts)
			h.placed[victim] = seat{}
			h.held[leaf]++
			h.lasting[leaf]++
			h.alive[leaf]++
		}
	}
	return h
}

// leafOf is the sub-group that a pod counts for.
func leafOf(spec *model.Workload, f *podFacts) string {
	if len(spec.SubGroups) == 0 {
		return ""
	}
	return f.pod.SubGroup
}

func (h *heads) finish(leaf string, n int) {
	for _, t := range []roll{h.done, h.held, h.alive, h.bound, h.running, h.lasting} {
		t[leaf] += n
	}
}

// take counts a member that has not ended.
func (h *heads) take(uid, leaf string, e *entry) {
	h.members[leaf]++
	if e.state == stateWaiting {
		return
	}
	if !e.stuck {
		h.lasting[leaf]++
	}
	if e.facts.deleting {
		return
	}
	h.held[leaf]++
	if e.state == stateBound {
		h.bound[leaf]++
		if e.facts.phase == corev1.PodRunning {
			h.running[leaf]++
		}
	}
	switch {
	case e.standsFor != "":
		h.placed[e.standsFor] = seat{}
		fallthrough
	case e.holds():
		h.placed[uid] = seat{e, e.node, e.held}
		h.alive[leaf]++
	}
}

// fewerThan is true if some sub-group has lost a member since the last look,
// also if there was none.
func (h *heads) fewerThan(before roll) bool {
	for leaf, n := range before {
		if h.alive[leaf] < n {
			return true
		}
	}
	return before == nil
}

// lacks is true if a member that was placed is so no more and did not end well,
// also if there was no look before.
func (h *heads) lacks(before map[string]seat) bool {
	for uid, s := range before {
		if h.misses(uid, s) {
			return true
		}
	}
	return before == nil
}

func (h *heads) misses(uid string, s seat) bool {
	_, placed := h.placed[uid]
	return !placed && !h.ended[uid] && !s.triesAgain()
}

// lostBound is true if a member that was bound is placed no more and did not end
// well.
func (h *heads) lostBound(before map[string]seat) bool {
	for uid, s := range before {
		if s.entry != nil && s.entry.facts.node != "" && h.misses(uid, s) {
			return true
		}
	}
	return false
}

// broken is true if the gang, or a sub-group that it can do without, runs in
// part, counting the members of a roll.
func (h *heads) broken(spec *model.Workload, count roll) bool {
	return !reached(*spec, count) || h.brokenPart(spec, count)
}

func (h *heads) brokenPart(spec *model.Workload, count roll) bool {
	if len(spec.SubGroups) == 0 {
		return false
	}
	children := map[string][]model.SubGroup{}
	for _, s := range spec.SubGroups {
		children[s.Parent] = append(children[s.Parent], s)
	}
	return h.brokenBelow(children, count, "", len(spec.SubGroups))
}

// brokenBelow asks the children of parent; depth bounds a parent loop.
func (h *heads) brokenBelow(children map[string][]model.SubGroup, count roll, parent string, depth int) bool {
	for _, s := range children[parent] {
		if depth < 0 || h.aliveBelow(children, s.Name, depth) == 0 {
			continue
		}
		whole := count[s.Name] >= s.MinMember
		if len(children[s.Name]) > 0 {
			whole = reachedBelow(children, s.Name, s.MinSubGroup, count, depth)
		}
		if !whole || h.brokenBelow(children, count, s.Name, depth-1) {
			return true
		}
	}
	return false
}

// aliveBelow counts the members of a sub-group that hold room.
func (h *heads) aliveBelow(children map[string][]model.SubGroup, name string, depth int) int {
	n := h.alive[name] - h.done[name]
	for _, s := range children[name] {
		if depth > 0 {
			n += h.aliveBelow(children, s.Name, depth-1)
		}
	}
	return n
}

// succeeded is true for a pod that has ended well.
func (e *entry) succeeded() bool {
	return e.state == stateReleased && e.facts.phase == corev1.PodSucceeded
}
