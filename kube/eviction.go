// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/model"
)

const (
	// holdFor is how long a moved pod's new place is held after the pod is
	// gone, for the one that its owner makes instead.
	holdFor = time.Minute
	// protectFor is how long a pod whose eviction was refused is no victim.
	protectFor = time.Minute
)

// Victim is a pod that the plan evicts.
type Victim struct {
	Pod      PodRef
	Queue    string
	Eviction cycle.Eviction
}

// hold keeps a place for the pod that somebody makes instead of another: the new
// place of one that is being moved, or that of a lost member of a gang.
type hold struct {
	owner string // UID of the controller
	facts *podFacts
	node  string
	gpus  []model.HeldGPU
	// scheduled is true for a move that no claimant waits for.
	scheduled bool
	gone      bool
	expiry    int64 // once gone
	// lost is true for the place of a member that a gang is short of.
	lost bool
}

func (h *hold) uid() string { return "hold/" + h.facts.ref.UID }

// pin keeps victims on the GPUs that the plan saw them on. Where no assignment says
// which GPUs a pod holds, others are booked for it whenever its node changes, and
// the claimant would wait for GPUs that it does not get.
func (l *Ledger) pin(evictions []cycle.Eviction) {
	for _, ev := range evictions {
		if e := l.pods[ev.Pod]; e != nil && e.holds() {
			e.held = l.heldIn(e)
		}
	}
}

// sentence records the plan's evictions. The victims count as leaving from now
// on: their room is that of the claimants which were promised it in the same
// step, and each is evicted once for a demand.
func (l *Ledger) sentence(evictions []cycle.Eviction) {
	for _, ev := range evictions {
		e := l.pods[ev.Pod]
		if e == nil || !e.holds() || e.sentence != nil {
			continue
		}
		e.sentence = &ev
		l.unbudgeted[e.facts.ref.Namespace] = true
		l.count(e, ev)
		l.refeed(e)
		if ev.MoveTo != nil && e.facts.owner != "" {
			h := &hold{owner: e.facts.owner, facts: e.facts, node: ev.MoveTo.Node, gpus: ev.MoveTo.GPUs, scheduled: scheduled(&ev)}
			l.holds[ev.Pod] = h
			l.feedHold(h)
		}
	}
}

// feedHold puts a stand-in for the moved pod into the cluster.
func (l *Ledger) feedHold(h *hold) {
	p := h.facts.pod
	p.UID, p.State, p.StandIn, p.Node, p.Held = h.uid(), model.Promised, true, h.node, h.gpus
	p.Workload = h.facts.workloadKey()
	if err := l.cluster.SetPod(p); err != nil {
		l.log.Error("the place of a moved pod could not be held", "pod", h.facts.ref.String(), "err", err)
	}
}

func (l *Ledger) dropHold(victim string) {
	if h := l.holds[victim]; h != nil {
		l.cluster.RemovePod(h.uid())
		delete(l.holds, victim)
		l.dirty[h.facts.workloadKey()] = true
	}
}

// heldFor is true if a place is held for a workload.
func (l *Ledger) heldFor(key string) bool {
	for _, h := range l.holds {
		if h.facts.workloadKey() == key {
			return true
		}
	}
	return false
}

// succeed gives a new pod the place that is held for it, if one is: that of a
// pod of the same owner that asks for the same.
func (l *Ledger) succeed(e *entry) bool {
	f := e.facts
	if f.owner == "" || f.node != "" || f.foreignGate {
		return false // behind a gate of somebody else it could keep the place for ever
	}
	for _, victim := range slices.Sorted(maps.Keys(l.holds)) {
		h := l.holds[victim]
		if h.owner != f.owner || victim == f.ref.UID || h.facts.pod.SubGroup != f.pod.SubGroup ||
			!reflect.DeepEqual(h.facts.pod.Claims, f.pod.Claims) || !reflect.DeepEqual(h.facts.pod.Request, f.pod.Request) {
			continue
		}
		l.dropHold(victim)
		if !h.lost {
			e.standsFor = victim
		}
		l.enter(e, statePromised, h.node, h.gpus)
		l.hearFrom(e, l.now())
		return true
	}
	return false
}

// review ends sentences that no claimant needs any more and holds that nobody
// came for.
func (l *Ledger) review(now int64) {
	awaited := map[string]bool{}
	for _, e := range l.index.states[statePromised] {
		for _, uid := range e.awaits {
			awaited[uid] = true
		}
	}
	for _, e := range byUID(l.index.timed) {
		if e.sentence == nil || e.facts.deleting || awaited[e.facts.ref.UID] {
			continue
		}
		if e.sentence.Rule == cycle.RuleStaleGang && e.workload != nil && e.workload.staleSince != 0 {
			continue
		}
		if scheduled(e.sentence) && l.holds[e.facts.ref.UID] != nil {
			continue
		}
		l.pardon(e)
	}
	for victim, h := range l.holds {
		e := l.pods[victim]
		switch {
		case h.lost:
			if h.expiry <= now {
				l.dropHold(victim)
			}
		case e != nil && e.state != stateReleased:
		case !h.gone:
			h.gone, h.expiry = true, now+int64(holdFor)
		case h.expiry <= now:
			l.dropHold(victim)
		}
	}
}

func (l *Ledger) pardon(e *entry) {
	e.sentence, e.plight = nil, ""
	l.unbudgeted[e.facts.ref.Namespace] = true
	l.dropHold(e.facts.ref.UID)
	l.refeed(e)
}

// VictimOf returns the pod if it still has to be evicted.
func (l *Ledger) VictimOf(uid string) (Victim, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil || e.sentence == nil || e.facts.deleting || !e.holds() {
		return Victim{}, false
	}
	return Victim{Pod: e.facts.ref, Queue: l.queueOf(e), Eviction: *e.sentence}, true
}

// Pardon notes that the API server does not let the pod be evicted, and what it
// said: the pod is no victim for a while, and its claimant is planned anew.
func (l *Ledger) Pardon(uid, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil || e.sentence == nil {
		return
	}
	e.protectedUntil = l.now() + int64(protectFor)
	e.refused = fmt.Sprintf("the API server refuses to evict pod %s, which is asked again in %s (%s)", e.facts.ref, protectFor, said)
	l.protectionDirty = true
	l.pardon(e)
	l.note()
}

// EvictionFails notes why the eviction of a pod fails, for those who wait for its
// room; it is tried again. "" takes that back.
func (l *Ledger) EvictionFails(uid, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil || e.sentence == nil || e.facts.deleting || e.plight == said {
		return
	}
	e.plight = said
	l.note()
}

// protected are stand-ins for budgets that cover the pods whose eviction was
// refused, one each.
func (l *Ledger) protected() (out []model.DisruptionBudget) {
	for _, e := range byUID(l.index.timed) {
		if e.protectedUntil > 0 {
			out = append(out, model.DisruptionBudget{Key: "refused/" + e.facts.ref.String(), Pods: []string{e.facts.ref.UID}, Refusal: e.refused})
		}
	}
	return out
}
