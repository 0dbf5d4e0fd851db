// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// SetPod takes in a pod as the API server has it.
func (l *Ledger) SetPod(pod *corev1.Pod) {
	facts := l.config.factsOf(pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setPod(facts)
}

func (l *Ledger) setPod(facts *podFacts) {
	if facts.ref.UID == "" {
		return
	}
	if before, ok := l.names[facts.ref.String()]; ok && before != facts.ref.UID {
		// One name is one pod: the earlier one is gone, though the event that
		// says so may come later or was missed.
		l.dropPod(before)
	}
	facts.adopt(l.memberships[facts.ref.UID])
	e, known := l.pods[facts.ref.UID]
	if known && reflect.DeepEqual(e.facts, facts) {
		return
	}
	if !known {
		e = &entry{since: l.now()}
		l.pods[facts.ref.UID] = e
		l.names[facts.ref.String()] = facts.ref.UID
		if come := l.arrivals[facts.ref.UID]; come != nil {
			close(come)
			delete(l.arrivals, facts.ref.UID)
		}
	}
	if known && e.facts.queueLabel != facts.queueLabel {
		e.planReason = nil // it was about the other queue
	}
	if known && e.state == statePromised && e.facts.nominated == e.node && facts.nominated == "" {
		// kube-scheduler tried the node and took the nomination back: a refusal
		// also in the words of an earlier one.
		e.refusal = ""
	}
	if e.facts = facts; !known {
		l.index.add(e)
	}
	l.index.name(e)
	l.join(e)
	if !known {
		l.inherit(e)
	}
	l.follow(e, !known)
	if facts.deleting {
		if e.leaving == 0 {
			e.leaving, e.plight = l.seq+1, ""
		}
		l.noteEvicted(e)
	}
	concerned := e.fed || e.workload != nil
	l.refeed(e)
	if concerned || e.fed {
		l.note()
	}
	e.seq = l.seq
}

// RemovePod takes in that the API server has no pod of that UID any more.
func (l *Ledger) RemovePod(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.memberships, uid)
	e := l.pods[uid]
	if e == nil {
		return
	}
	concerned := e.fed || e.workload != nil
	l.dropPod(uid)
	if concerned {
		l.note()
	}
}

func (l *Ledger) dropPod(uid string) {
	e := l.pods[uid]
	l.noteEvicted(e)
	if e.workload != nil {
		e.workload.finishedGone(e)
	}
	l.leave(e)
	l.account(e, -1)
	l.index.remove(e)
	l.trouble("Pod", e.facts.ref.Namespace, e.facts.ref.Name, "")
	l.cluster.RemovePod(uid)
	delete(l.pods, uid)
	delete(l.memberships, uid)
	if l.names[e.facts.ref.String()] == uid {
		delete(l.names, e.facts.ref.String())
	}
	l.unbudgeted[e.facts.ref.Namespace] = true
	l.protectionDirty = l.protectionDirty || e.protectedUntil > 0
}

// join puts the pod into its workload.
func (l *Ledger) join(e *entry) {
	key := ""
	if e.facts.inGang() || l.queueOfPod(e.facts) != "" {
		key = e.facts.workloadKey()
	}
	if e.workload != nil && e.workload.key != key {
		l.leave(e)
	}
	if key == "" {
		return
	}
	w := l.workload(key, e.facts.inGang())
	w.pods[e.facts.ref.UID] = e
	e.workload = w
	l.dirty[key] = true
}

func (l *Ledger) leave(e *entry) {
	if e.workload == nil {
		return
	}
	delete(e.workload.pods, e.facts.ref.UID)
	l.dirty[e.workload.key] = true
	e.workload = nil
}

func (l *Ledger) workload(key string, isGroup bool) *workload {
	w := l.workloads[key]
	if w == nil {
		w = &workload{key: key, isGroup: isGroup, pods: map[string]*entry{}}
		l.workloads[key] = w
	}
	return w
}

// enter changes an entry's state and place.
func (l *Ledger) enter(e *entry, s state, node string, held []model.HeldGPU) {
	if e.state != s || e.node != node {
		e.since = l.now()
	}
	l.account(e, -1)
	l.index.move(e, s)
	l.unbudgeted[e.facts.ref.Namespace] = true
	e.node, e.held = node, held
	l.account(e, +1)
	if s != statePromised {
		e.awaits = nil
	}
	if e.workload != nil {
		l.dirty[e.workload.key] = true
	}
}

// follow moves the entry to where the API server has the pod.
func (l *Ledger) follow(e *entry, first bool) {
	f := e.facts
	l.unbudgeted[f.ref.Namespace] = true
	switch {
	case e.state == stateReleased:
	case f.terminal():
		l.enter(e, stateReleased, "", nil)
		l.turnAway(e)
	case f.node != "":
		l.followBound(e)
	case f.deleting && (e.state == stateWaiting || e.state == statePromised):
		l.enter(e, stateWaiting, "", nil)
	case first && l.succeed(e):
	case first && !f.gated && f.nominated != "" && e.workload != nil:
		// Whoever led before us promised this place and told the scheduler.
		l.enter(e, statePromised, f.nominated, nil)
	}
}

// followBound books what the pod's annotation says. Without one, what we
// assumed on that node still holds.
func (l *Ledger) followBound(e *entry) {
	f := e.facts
	var held []model.HeldGPU
	if e.node == f.node && (e.state == stateAssumed || e.state == stateBound) {
		held = e.held
	}
	message := ""
	if f.assignment != "" && len(f.pod.Claims) > 0 {
		decoded, err := decodeAssignment(f)
		switch {
		case err != nil:
			message = err.Error()
		case decoded != nil:
			held = decoded
		}
	}
	l.trouble("Pod", f.ref.Namespace, f.ref.Name, message)
	l.enter(e, stateBound, f.node, held)
}

// ownReason is why the pod waits whatever the plan says; nil if the plan
// decides.
func (l *Ledger) ownReason(e *entry) *explain.Reason {
	f := e.facts
	switch {
	case f.invalid != nil:
		return f.invalid
	case f.member != nil && f.member.Waits != nil && f.group == "":
		return f.member.Waits
	case e.workload != nil && f.group != "" && e.workload.group == nil:
		return &explain.Reason{
			Code: PodGroupMissing,
			Message: fmt.Sprintf("pod %s belongs to PodGroup %s, which does not exist; create it or remove the pod's label fairslice.io/pod-group",
				f.ref, groupKey(f.ref.Namespace, f.group)),
		}
	case e.state == stateWaiting && e.workload != nil && e.workload.released:
		return &explain.Reason{
			Code: GangReleased,
			Message: fmt.Sprintf("pod %s waits until the other members of its gang have left: one was lost, and onMemberLost is ReleaseAll",
				f.ref),
		}
	case f.foreignGate:
		return &explain.Reason{
			Code:    HeldByGate,
			Message: fmt.Sprintf("pod %s has a scheduling gate of somebody else, who must remove it first", f.ref),
		}
	case e.blockedUntil > 0:
		return &explain.Reason{
			Code:    BindingRefused,
			Message: fmt.Sprintf("pod %s could not be bound %d times, itself or with its gang; it is tried again with growing delays", f.ref, e.failures),
		}
	}
	return nil
}

// Codes of waiting reasons that the core cannot know.
const (
	// PodUnknown pods have not reached the ledger yet.
	PodUnknown explain.Code = "PodUnknown"
	// NodeUnknown nodes have not reached the ledger yet.
	NodeUnknown explain.Code = "NodeUnknown"
	// NotPlannedYet pods wait for the next cycle.
	NotPlannedYet explain.Code = "NotPlannedYet"
	// PlannedElsewhere is why nodes other than the planned one are no choice.
	PlannedElsewhere explain.Code = "PlannedElsewhere"
	// PodLeaving pods are being deleted or have ended.
	PodLeaving explain.Code = "PodLeaving"
	// PodGroupMissing pods name a PodGroup that does not exist.
	PodGroupMissing explain.Code = "PodGroupMissing"
	// HeldByGate pods have a scheduling gate of somebody else.
	HeldByGate explain.Code = "HeldByGate"
	// BindingRefused pods could not be bound and are tried again later.
	BindingRefused explain.Code = "BindingRefused"
)

// UIDs lists the pods that the ledger knows.
func (l *Ledger) UIDs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.pods))
}
