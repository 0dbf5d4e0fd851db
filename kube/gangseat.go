// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"

	"github.com/fairslice/fairslice/core/model"
)

// seat is the place of a member at the last look; zero where none can be kept.
type seat struct {
	entry *entry
	node  string
	gpus  []model.HeldGPU
}

// keepSeats holds the places of members that a gang is short of for the pods
// that stand in for them: their owner needs a moment to make those, in which
// others that wait would take the room. The plan gives up what is held where the
// pod could not run again.
func (l *Ledger) keepSeats(w *workload, before map[string]seat, h *heads) {
	expiry := w.staleSince + min(l.graceOf(w), int64(holdFor))
	if !w.short || expiry <= l.now() {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		s := before[uid]
		if !h.misses(uid, s) || l.holds[uid] != nil || !s.keeps() {
			continue
		}
		held := &hold{owner: s.entry.facts.owner, facts: s.entry.facts, node: s.node, gpus: s.gpus, lost: true, expiry: expiry}
		l.holds[uid] = held
		l.feedHold(held)
	}
	// Who stands in may be there already: without its place it would find the
	// room taken by what is held for it.
	for _, e := range w.sorted() {
		if e.state == stateWaiting && !e.facts.deleting && l.succeed(e) {
			l.refeed(e)
		}
	}
}

// keeps is true if somebody makes the pod again, which its kubelet would not turn
// away as well, and nobody was promised its room when it was evicted.
func (s seat) keeps() bool {
	e := s.entry
	return e != nil && e.sentence == nil && e.facts.turnedAway == "" && e.facts.owner != "" && e.facts.recreated &&
		(e.facts.member == nil || !e.facts.member.NotRecreated)
}

// triesAgain is true if the member was not bound and still is to be: it is not lost,
// and needs the place itself.
func (s seat) triesAgain() bool {
	return s.entry != nil && (s.entry.state == stateWaiting || s.entry.state == statePromised) && !s.entry.facts.deleting
}

// giveUpSeats ends what is held for a gang that is short of nobody any more, or
// that is given up itself.
func (l *Ledger) giveUpSeats(w *workload) {
	for uid, held := range l.holds {
		if held.lost && held.facts.workloadKey() == w.key {
			l.dropHold(uid)
		}
	}
}
