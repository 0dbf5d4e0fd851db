// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"
)

// index finds entries without a walk over all pods: in a cluster of tens of
// thousands of running pods, what a cycle looks at is what waits, is promised,
// or is on its way out.
type index struct {
	states     [stateReleased + 1]map[string]*entry
	namespaces map[string]map[string]*entry
	// timed are the entries that time alone may change.
	timed map[string]*entry
	// named are the entries with the gate whose pods' status names a node.
	named map[string]*entry
}

func newIndex() index {
	x := index{namespaces: map[string]map[string]*entry{}, timed: map[string]*entry{}, named: map[string]*entry{}}
	for i := range x.states {
		x.states[i] = map[string]*entry{}
	}
	return x
}

func (x *index) add(e *entry) {
	uid, namespace := e.facts.ref.UID, e.facts.ref.Namespace
	x.states[e.state][uid] = e
	if x.namespaces[namespace] == nil {
		x.namespaces[namespace] = map[string]*entry{}
	}
	x.namespaces[namespace][uid] = e
}

func (x *index) remove(e *entry) {
	uid, namespace := e.facts.ref.UID, e.facts.ref.Namespace
	delete(x.states[e.state], uid)
	delete(x.timed, uid)
	delete(x.named, uid)
	delete(x.namespaces[namespace], uid)
	if len(x.namespaces[namespace]) == 0 {
		delete(x.namespaces, namespace)
	}
}

// move changes an entry's state.
func (x *index) move(e *entry, to state) {
	delete(x.states[e.state], e.facts.ref.UID)
	e.state = to
	x.states[to][e.facts.ref.UID] = e
}

// time notes whether time alone may change the entry.
func (x *index) time(e *entry) {
	if len(e.excluded) > 0 || e.blockedUntil > 0 || e.protectedUntil > 0 || e.sentence != nil ||
		e.facts.deleting && !e.stuck || e.state == statePromised {
		x.timed[e.facts.ref.UID] = e
		return
	}
	delete(x.timed, e.facts.ref.UID)
}

// name notes whether the entry's pod has the gate and names a node.
func (x *index) name(e *entry) {
	if e.facts.gated && e.facts.nominated != "" {
		x.named[e.facts.ref.UID] = e
		return
	}
	delete(x.named, e.facts.ref.UID)
}

// byUID returns entries in UID order.
func byUID(entries map[string]*entry) []*entry {
	out := make([]*entry, 0, len(entries))
	for _, uid := range slices.Sorted(maps.Keys(entries)) {
		out = append(out, entries[uid])
	}
	return out
}
