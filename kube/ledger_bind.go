// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/core/cycle"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

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
		if e.state == stateAssumed {
			e.since = l.now() // another write of ours begins
		}
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
		l.hearFrom(e, l.now())
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
	facts := l.config.factsOf(pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.pods[ref.UID]
	if e == nil || e.state != stateAssumed {
		return // the watch has brought more since: another pod may have the name
	}
	if facts.node == "" {
		l.forget(e)
		l.note()
	}
	l.setPod(facts)
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
	g := l.gang(w)
	return g.Ready(), g.Assumed + g.Bound + g.Succeeded, g.Minimum
}
