// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// refeed brings the cluster's copy of a pod up to date.
func (l *Ledger) refeed(e *entry) {
	l.index.time(e)
	state, ok := l.modelState(e)
	if !ok {
		if e.fed {
			l.cluster.RemovePod(e.facts.ref.UID)
			e.fed = false
		}
		return
	}
	p := e.facts.pod
	p.State = state
	p.Workload = e.facts.workloadKey()
	p.NominatedNode = e.facts.nominated
	p.ExcludedNodes = l.excludedNodes(e)
	p.Returns = e.sentence != nil && e.sentence.MoveTo == nil && !e.facts.deleting && e.facts.owner != ""
	switch state {
	case model.Promised, model.Bound, model.Releasing, model.Stuck:
		p.Node, p.Held = e.node, e.held
	}
	if err := l.cluster.SetPod(p); err != nil {
		l.trouble("Pod", e.facts.ref.Namespace, e.facts.ref.Name, err.Error())
		e.planReason = &explain.Reason{Code: explain.InvalidRequest, Message: err.Error()}
		return
	}
	e.fed = true
}

// modelState is the pod's state in the cluster, false if it has none there:
// pods that hold nothing and wait for nothing.
func (l *Ledger) modelState(e *entry) (model.PodState, bool) {
	switch {
	case e.state == stateReleased:
		// Members that ended count for their gang.
		if e.workload == nil || !e.workload.isGroup || e.past {
			return 0, false
		}
		if e.facts.phase == corev1.PodSucceeded {
			return model.Succeeded, true
		}
		return model.Failed, true
	case e.state == stateBound || e.state == stateAssumed:
		switch {
		case e.stuck:
			return model.Stuck, true
		case e.facts.deleting || e.sentence != nil:
			return model.Releasing, true
		}
		return model.Bound, true
	case e.workload == nil || e.facts.deleting:
		return 0, false
	case e.state == statePromised:
		return model.Promised, true
	case l.ownReason(e) != nil:
		return model.Gated, true
	}
	return model.Pending, true
}

// flush translates the workloads that changed.
func (l *Ledger) flush() {
	for _, key := range slices.Sorted(maps.Keys(l.dirty)) {
		l.flushWorkload(key)
	}
	clear(l.dirty)
}

// refresh translates a workload if it changed: who looks at a large gang, each of
// its members many times a second while they wait to be bound, must not pay for it.
func (l *Ledger) refresh(w *workload) {
	if l.dirty[w.key] {
		l.flushWorkload(w.key)
		delete(l.dirty, w.key)
	}
}

// Tidy forgets what is left of pods that are gone. Decisions do so as well, but a
// standby makes none for weeks. Nobody looks at a gang that has pods or a PodGroup:
// a new leader takes its own first look.
func (l *Ledger) Tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letBack(l.now())
	for _, key := range slices.Sorted(maps.Keys(l.dirty)) {
		if w := l.workloads[key]; w == nil || len(w.pods) == 0 && w.group == nil {
			l.flushWorkload(key)
			delete(l.dirty, key)
		}
	}
	l.feedBudgets()
	l.cluster.Settle()
}

func (l *Ledger) flushWorkload(key string) {
	w := l.workloads[key]
	if w == nil {
		return
	}
	if len(w.pods) == 0 {
		l.giveUpSeats(w) // of a gang that is gone as a whole nobody is missing
		if w.fed && l.heldFor(key) {
			return // its moved pod's successor is expected
		}
		if w.fed {
			l.cluster.RemoveWorkload(key)
			w.fed = false
		}
		if w.group != nil && !w.remembered && len(l.unsynced) == 0 {
			w.remembered = true
			l.rememberFinished(w, &w.group.Status)
		}
		w.life = life{finished: w.finished, ended: true}
		l.watchGrace(w)
		if w.group == nil {
			delete(l.workloads, key)
		}
		return
	}
	l.watchGang(w)
	spec := l.build(w)
	if w.fed && reflect.DeepEqual(spec, w.spec) {
		return
	}
	if err := l.cluster.SetWorkload(spec); err != nil {
		kind, name := "Pod", key
		if w.group != nil {
			kind = "PodGroup"
		}
		l.trouble(kind, "", name, err.Error())
		return
	}
	w.spec, w.fed = spec, true
}

// count counts the workload's members that hold or need no place.
func (w *workload) count() GangView {
	g := GangView{Succeeded: w.finished.sum()}
	for _, e := range w.pods {
		switch {
		case e.past:
		case e.state == stateReleased:
			if e.succeeded() {
				g.Succeeded++
			}
		case e.facts.deleting:
		case e.state == stateBound:
			g.Bound++
		case e.state == stateAssumed:
			g.Assumed++
		case e.state == statePromised:
			g.Promised++
		}
	}
	return g
}
