// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import "github.com/fairslice/fairslice/core/model"

// forbidden names a disruption budget that does not allow a unit to be
// evicted, "" if all do.
func (d *decider) forbidden(u *unit) string {
	if len(d.budgetUsed) == 0 {
		return ""
	}
	need := map[int]int{}
	for _, p := range u.pods {
		for _, b := range d.c.BudgetsOf(p.Spec.UID) {
			need[b]++
		}
	}
	worst := -1
	for b, n := range need {
		if d.budgetUsed[b]+n > d.c.Budgets()[b].Allowed && (worst < 0 || b < worst) {
			worst = b
		}
	}
	if worst < 0 {
		return ""
	}
	return d.c.Budgets()[worst].Key
}

// useBudgets counts an eviction, or takes it back.
func (d *decider) useBudgets(p *model.LivePod, by int) {
	if len(d.budgetUsed) == 0 {
		return
	}
	for _, b := range d.c.BudgetsOf(p.Spec.UID) {
		d.budgetUsed[b] += by
	}
}

// chargeBudgets counts the pods of a unit that will really be evicted.
func (d *decider) chargeBudgets(u *unit) {
	for _, p := range u.pods {
		if p.Home.Phase == model.Started && (p.Phase != model.Started || p.From != nil) {
			d.useBudgets(p, 1)
		}
	}
}
