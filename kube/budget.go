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
	next := &budget{namespace: b.Namespace, selector: selector}
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
			b.covered = l.coveredBy(b)
		}
		out = append(out, model.DisruptionBudget{Key: key, Allowed: b.allowed, Pods: b.covered})
	}
	clear(l.unbudgeted)
	l.protectionDirty = false
	if refused, ok := l.protected(); ok {
		out = append(out, refused)
	}
	if len(out) > 0 || len(l.cluster.Budgets()) > 0 {
		l.cluster.SetBudgets(out)
	}
}

func (l *Ledger) coveredBy(b *budget) []string {
	var covered []string
	for uid, e := range l.index.namespaces[b.namespace] {
		if e.holds() && b.selector.Matches(labels.Set(e.facts.pod.Labels)) {
			covered = append(covered, uid)
		}
	}
	slices.Sort(covered)
	return covered
}

// holds is true for a pod that takes up room on a node.
func (e *entry) holds() bool {
	return e.state == stateAssumed || e.state == stateBound
}
