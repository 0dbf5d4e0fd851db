// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fairslice/fairslice/core/model"
)

// budget is a PodDisruptionBudget with its selector parsed.
type budget struct {
	namespace string
	selector  labels.Selector
	allowed   int
	covered   []string // UIDs of pods that hold a place
	// disrupted are the names of pods whose eviction the API server has accepted
	// and deducted from allowed; at is the ledger's seq when it said so.
	disrupted map[string]bool
	at        uint64
	// spent are evictions of ours that allowed does not know of yet.
	spent int
}

// SetBudget takes in a disruption budget as the API server has it. One whose
// selector cannot be read, or that has not been evaluated for its present
// spec, allows no eviction.
func (l *Ledger) SetBudget(b *policyv1.PodDisruptionBudget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	message := ""
	if err != nil {
		message, selector = "selector: "+err.Error(), labels.Nothing()
	}
	l.trouble("PodDisruptionBudget", b.Namespace, b.Name, message)
	next := &budget{namespace: b.Namespace, selector: selector, disrupted: map[string]bool{}, at: l.seq + 1}
	for pod := range b.Status.DisruptedPods {
		next.disrupted[pod] = true
	}
	if b.Status.ObservedGeneration >= b.Generation {
		next.allowed = int(b.Status.DisruptionsAllowed)
	}
	l.budgets[b.Namespace+"/"+b.Name] = next
	l.unbudgeted[b.Namespace] = true
	l.note()
}

// RemoveBudget takes in that a disruption budget is gone.
func (l *Ledger) RemoveBudget(namespace, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble("PodDisruptionBudget", namespace, name, "")
	delete(l.budgets, namespace+"/"+name)
	l.unbudgeted[namespace] = true
	l.note()
}

// feedBudgets says which pods each budget covers now.
func (l *Ledger) feedBudgets() {
	if len(l.unbudgeted) == 0 && !l.protectionDirty {
		return
	}
	var out []model.DisruptionBudget
	for _, key := range slices.Sorted(maps.Keys(l.budgets)) {
		b := l.budgets[key]
		if l.unbudgeted[b.namespace] {
			b.covered, b.spent = l.coveredBy(b)
		}
		out = append(out, model.DisruptionBudget{Key: key, Allowed: max(0, b.allowed-b.spent), Pods: b.covered})
	}
	clear(l.unbudgeted)
	l.protectionDirty = false
	out = append(out, l.protected()...)
	if len(out) > 0 || len(l.cluster.Budgets()) > 0 {
		l.cluster.SetBudgets(out)
	}
}

// coveredBy lists the pods that a budget covers, and counts those which are to be
// evicted or are leaving for us and which its status does not show yet: a status
// that says how many more may go counts them among those that stay.
func (l *Ledger) coveredBy(b *budget) (covered []string, spent int) {
	for uid, e := range l.index.namespaces[b.namespace] {
		if e.holds() && b.selector.Matches(labels.Set(e.facts.pod.Labels)) {
			covered = append(covered, uid)
			shown := b.disrupted[e.facts.ref.Name] || e.leaving > 0 && b.at > e.leaving
			if e.sentence != nil && !shown {
				spent++
			}
		}
	}
	slices.Sort(covered)
	return covered, spent
}

// holds is true for a pod that takes up room on a node.
func (e *entry) holds() bool {
	return e.state == stateAssumed || e.state == stateBound
}
