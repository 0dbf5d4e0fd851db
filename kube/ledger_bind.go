// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

// filterBudget is how long a cycle may take for a filter call to run one for a
// pod that came after the last cycle. Beyond it the pod waits for the next.
const filterBudget = 20 * time.Millisecond

// Feasible sorts nodes into those where the pod may be bound now and the
// others, each with its reason. A pod that no cycle has seen yet has one run
// for it if that is quick; apart from this Feasible changes nothing.
func (l *Ledger) Feasible(uid string, nodes []string) (ok []string, failed map[string]explain.Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed = make(map[string]explain.Reason, len(nodes))
	e := l.pods[uid]
	if e != nil && e.state == stateWaiting && e.seq > l.decided && l.lastDuration <= filterBudget && l.ownReason(e) == nil && !e.facts.deleting {
		l.decide(cycle.Allocate)
		l.note() // what is left for the other actions, and to write
	}
	everywhere, on := l.verdict(e, uid)
	elsewhere := explain.Reason{Code: PlannedElsewhere}
	if on != "" {
		elsewhere.Message = "pod " + e.facts.ref.String() + " is planned on node " + on
	}
	for _, node := range nodes {
		switch {
		case everywhere != nil:
			failed[node] = *everywhere
		case !l.knows(node):
			failed[node] = *nodeUnknown(node)
		case on != "" && on != node:
			failed[node] = elsewhere
		case on == "" || len(ok) == 0: // a node may be named twice
			ok = append(ok, node)
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

// awaitReason names the pods that must end before the promise can be used.
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
		names = append(names, victim.facts.ref.String())
	}
	const shown = 3
	list := ""
	for i, name := range names[:min(shown, len(names))] {
		if i > 0 {
			list += ", "
		}
		list += name
	}
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
	if l.dirty[w.key] {
		l.flushWorkload(w.key)
		delete(l.dirty, w.key)
	}
	return w.spec.Queue
}

// Assume books the pod's place on node before the bind and returns the value
// for the annotation fairslice.io/gpu-assignment, "" for a pod without GPU. It
// re-checks the room. The same UID and node again returns the same value.
// Errors are one sentence.
func (l *Ledger) Assume(uid, node string) (assignment string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e != nil && e.state == stateWaiting && l.interested(e) && l.ownReason(e) == nil && !e.facts.deleting {
		l.decide(cycle.Allocate)
		l.note()
	}
	if r := l.infeasible(e, uid, node); r != nil {
		return "", errors.New(r.Message)
	}
	if e.state == stateAssumed || e.state == stateBound {
		return l.encode(e)
	}
	if !l.interested(e) {
		return "", nil
	}
	if r := fit.Check(l.cluster, uid, node); r != nil {
		return "", errors.New(r.Message)
	}
	held := l.heldIn(e)
	before, since := e.held, e.since
	l.enter(e, stateAssumed, node, held)
	if assignment, err = l.encode(e); err != nil {
		l.enter(e, statePromised, node, before)
		e.since = since
		return "", err
	}
	l.refeed(e)
	return assignment, nil
}

func (l *Ledger) encode(e *entry) (string, error) {
	return encodeAssignment(e.facts, e.node, l.heldIn(e), l.nodes[e.node].identified)
}

// booked is what the cluster booked for a pod whose GPUs nobody named.
func (l *Ledger) booked(uid string) []model.HeldGPU {
	l.flush()
	l.cluster.Settle()
	live := l.cluster.PodByUID(uid)
	if live == nil || live.Home.Node == nil {
		return nil
	}
	var out []model.HeldGPU
	for _, h := range live.Home.Held {
		if h.Claim < 0 || int(h.Claim) >= len(live.Spec.Claims) {
			continue
		}
		out = append(out, model.HeldGPU{
			Claim: live.Spec.Claims[h.Claim].Name, GPU: live.Home.Node.GPUs[h.GPU].ID,
			Milli: h.Milli, MemoryMiB: h.MiB,
		})
	}
	return out
}

// ConfirmBound notes that the API server took the bind.
func (l *Ledger) ConfirmBound(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil || e.state != stateAssumed {
		return
	}
	l.enter(e, stateBound, e.node, e.held)
	e.failures = 0
	l.note()
}

// Forget notes that the bind did not happen, for certain: the pod is promised
// again, and stands back for a while when it happens again and again. A bind
// whose outcome is unknown is Doubted instead.
func (l *Ledger) Forget(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil || e.state != stateAssumed {
		return
	}
	l.forget(e)
	e.failures++
	if e.failures > bindFailuresFree {
		e.blockedUntil = l.now() + int64(backoff(bindBackoffBase, bindBackoffMax, e.failures-bindFailuresFree-1))
		l.withdraw(e)
	}
	l.note()
}

// Doubt notes that nobody knows whether the bind happened: the pod stays
// assumed, and is read back once no write of ours can be under way any more.
func (l *Ledger) Doubt(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.pods[uid]; e != nil && e.state == stateAssumed {
		e.since = l.now()
	}
}

func (l *Ledger) forget(e *entry) {
	if e.facts.deleting {
		l.enter(e, stateWaiting, "", nil)
	} else {
		l.enter(e, statePromised, e.node, e.held)
		e.refusal = e.facts.scheduled.message
	}
	l.refeed(e)
}

// Unsettled lists the pods that have been assumed for longer than age: their
// binds ended without a clear answer and they must be read back.
func (l *Ledger) Unsettled(age time.Duration) []PodRef {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []PodRef
	for _, e := range byUID(l.index.states[stateAssumed]) {
		if l.now() > e.since+int64(age) {
			out = append(out, e.facts.ref)
		}
	}
	return out
}

// ReadBack takes in what the API server itself, not a watch, answered for an
// unsettled pod; nil says that it has none of that name.
func (l *Ledger) ReadBack(ref PodRef, pod *corev1.Pod) {
	if pod == nil || string(pod.UID) != ref.UID {
		l.RemovePod(ref.UID)
		return
	}
	l.mu.Lock()
	e := l.pods[ref.UID]
	if e != nil && e.state == stateAssumed && pod.Spec.NodeName == "" {
		l.forget(e)
		l.note()
	}
	l.mu.Unlock()
	l.SetPod(pod)
}

// GangReady says whether the members of a workload that are assumed, bound or
// finished reach its minimum, in every sub-group, and how many of how many
// there are.
func (l *Ledger) GangReady(workload string) (ready bool, have, need int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workloads[workload]
	if w == nil {
		return false, 0, 1
	}
	l.flushWorkload(workload)
	arrived := map[string]int{}
	for _, e := range w.pods {
		if e.holds() && !e.facts.deleting || e.state == stateReleased && e.facts.phase == corev1.PodSucceeded {
			arrived[e.facts.pod.SubGroup]++
			have++
		}
	}
	return reached(w.spec, arrived), have, minimum(w.spec)
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
		v.Gang = e.workload.count()
		v.Gang.Minimum = max(minimum(e.workload.spec), 1)
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
// the pods that must end there and have not begun to; "" if there are none.
func (l *Ledger) VictimsFor(uid string) (node string, victims []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[uid]
	if e == nil || e.state != statePromised {
		return "", nil
	}
	for _, v := range e.awaits {
		victim := l.pods[v]
		if victim != nil && victim.holds() && victim.node == e.node && !victim.facts.deleting {
			victims = append(victims, v)
		}
	}
	if len(victims) == 0 {
		return "", nil
	}
	return e.node, victims
}
