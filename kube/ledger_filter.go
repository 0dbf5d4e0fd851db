// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"strings"
	"time"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/explain"
)

// filterBudget is how long a cycle may take for a filter call to run one for a
// pod that came after the last cycle. Beyond it the pod waits for the next.
const filterBudget = 20 * time.Millisecond

// Feasible sorts nodes into those where the pod may be bound now and the
// others, each with its reason. Beside a node to be bound to, those that the plan
// passed over are in neither: a thousand reasons that nobody reads. A pod that no
// cycle has seen yet has one run for it if that is quick; apart from this Feasible
// changes nothing.
func (l *Ledger) Feasible(uid string, nodes []string) (ok []string, failed map[string]explain.Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed = map[string]explain.Reason{}
	e := l.pods[uid]
	if e != nil && e.state == stateWaiting && e.seq > l.decided && l.lastDuration <= filterBudget && l.ownReason(e) == nil && !e.facts.deleting {
		l.decide(cycle.Allocate)
		l.note() // what is left for the other actions, and to write
	}
	everywhere, on := l.verdict(e, uid)
	var passedOver []string
	for _, node := range nodes {
		switch {
		case everywhere != nil:
			failed[node] = *everywhere
		case !l.knows(node):
			failed[node] = *nodeUnknown(node)
		case on != "" && on != node:
			passedOver = append(passedOver, node)
		case on == "" || len(ok) == 0: // a node may be named twice
			ok = append(ok, node)
		}
	}
	if len(ok) == 0 && len(passedOver) > 0 {
		elsewhere := explain.Reason{Code: PlannedElsewhere, Message: "pod " + e.facts.ref.String() + " is planned on node " + on}
		for _, node := range passedOver {
			failed[node] = elsewhere
		}
	}
	return ok, failed
}

// verdict says why no node will do, or which one will; "" for any node.
func (l *Ledger) verdict(e *entry, uid string) (everywhere *explain.Reason, on string) {
	if e == nil {
		return &explain.Reason{Code: PodUnknown, Message: "pod with UID " + uid + " has not been seen yet"}, ""
	}
	f := e.facts
	switch {
	case f.deleting || f.terminal():
		return &explain.Reason{Code: PodLeaving, Message: "pod " + f.ref.String() + " is being deleted or has ended"}, ""
	case e.state == stateWaiting && !l.interested(e):
		return nil, ""
	case e.state == stateWaiting:
		return l.waitReason(e), ""
	case e.state == statePromised && !l.startable(e):
		return l.awaitReason(e), ""
	}
	return nil, e.node
}

func (l *Ledger) knows(node string) bool {
	_, known := l.nodes[node]
	return known
}

func nodeUnknown(node string) *explain.Reason {
	return &explain.Reason{Code: NodeUnknown, Message: "node " + node + " has not been seen yet"}
}

// infeasible says why the pod cannot be bound to node now, nil if it can.
func (l *Ledger) infeasible(e *entry, uid, node string) *explain.Reason {
	everywhere, on := l.verdict(e, uid)
	switch {
	case everywhere != nil:
		return everywhere
	case !l.knows(node):
		return nodeUnknown(node)
	case on != "" && on != node:
		return &explain.Reason{Code: PlannedElsewhere, Message: "pod " + e.facts.ref.String() + " is planned on node " + on}
	}
	return nil
}

// waitReason is why a pod without a place waits.
func (l *Ledger) waitReason(e *entry) *explain.Reason {
	if own := l.ownReason(e); own != nil {
		return own
	}
	if e.planReason != nil {
		return e.planReason
	}
	return &explain.Reason{Code: NotPlannedYet, Message: "pod " + e.facts.ref.String() + " waits for the next cycle"}
}

// awaitReason names the pods that must end before the promise can be used, or
// what the kubelet does not offer yet.
func (l *Ledger) awaitReason(e *entry) *explain.Reason {
	r := &explain.Reason{Code: explain.WaitingForRelease}
	var names []string
	for _, uid := range e.awaits {
		victim := l.pods[uid]
		if victim == nil || victim.state == stateReleased {
			continue
		}
		if victim.sentence != nil {
			r.Code = explain.WaitingForVictims
		}
		r.Victims = append(r.Victims, uid)
		name := victim.facts.ref.String()
		if victim.plight != "" {
			name += " (its eviction fails: " + victim.plight + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		if short := l.notOffered(e); short != nil {
			return short
		}
	}
	const shown = 3
	list := strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		list += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	r.Message = fmt.Sprintf("pod %s is promised node %s and waits for %s to end there", e.facts.ref, e.node, list)
	return r
}

// interested is true if a queue manages the pod or it asks for GPU.
func (l *Ledger) interested(e *entry) bool {
	return e.facts.asksGPU || l.queueOf(e) != ""
}

func (l *Ledger) queueOf(e *entry) string {
	w := e.workload
	if w == nil {
		return ""
	}
	l.refresh(w)
	return w.spec.Queue
}

// arrivalPatience is how long Lookup waits for a pod that kube-scheduler's watch
// has brought and ours has not: much less than the scheduler's back-off.
const arrivalPatience = 50 * time.Millisecond

// Lookup returns what is known of the pod; false if the UID is not known, also
// a moment later.
func (l *Ledger) Lookup(uid string) (PodView, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil {
		e = l.awaitArrival(uid)
	}
	if e == nil {
		return PodView{}, false
	}
	return l.view(e), true
}

// awaitArrival gives the lock up until the pod has come, or not.
func (l *Ledger) awaitArrival(uid string) *entry {
	come := l.arrivals[uid]
	if come == nil {
		come = make(chan struct{})
		l.arrivals[uid] = come
	}
	l.mu.Unlock()
	late := time.NewTimer(arrivalPatience)
	defer late.Stop()
	select {
	case <-come:
	case <-late.C:
	}
	l.mu.Lock()
	if l.arrivals[uid] == come {
		delete(l.arrivals, uid)
	}
	return l.pods[uid]
}

func (l *Ledger) view(e *entry) PodView {
	f := e.facts
	v := PodView{
		UID: f.ref.UID, Namespace: f.ref.Namespace, Name: f.ref.Name,
		Queue:       l.queueOf(e),
		Interested:  l.interested(e),
		Workload:    f.workloadKey(),
		PlannedNode: e.node,
		Startable:   e.state != stateWaiting && e.state != stateReleased && l.startable(e),
		Assumed:     e.state == stateAssumed,
		Bound:       e.state == stateBound,
		Leaving:     f.deleting || f.terminal(),
	}
	if e.workload != nil {
		v.Gang = l.gang(e.workload)
	}
	switch {
	case !v.Interested || v.Leaving:
	case e.state == stateWaiting:
		v.Reason = l.ownReason(e)
		if v.Reason == nil {
			v.Reason = e.planReason
		}
	case e.state == statePromised && !v.Startable:
		v.Reason = l.awaitReason(e)
	}
	return v
}

// VictimsFor returns the node that the plan clears for the pod and the UIDs of
// the pods that it evicts there and that have not begun to end; "" if there are
// none.
func (l *Ledger) VictimsFor(uid string) (node string, victims []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil || e.state != statePromised {
		return "", nil
	}
	for _, v := range e.awaits {
		victim := l.pods[v]
		if victim == nil || !victim.holds() || victim.facts.deleting {
			continue
		}
		if victim.sentence == nil {
			return "", nil // it was pardoned: the others would go in vain
		}
		if victim.node == e.node {
			victims = append(victims, v)
		}
	}
	if len(victims) == 0 {
		return "", nil
	}
	return e.node, victims
}
