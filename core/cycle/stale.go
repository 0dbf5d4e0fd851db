// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// evictStaleGangs ends gangs that have been below their minimum for longer
// than their grace, preemptible or not. Of a gang that only lacks a sub-group
// it can do without, only what runs of that is ended.
func (d *decider) evictStaleGangs() {
	for _, w := range d.touched(model.SetShort, func(w *model.LiveWorkload) bool { return len(w.Broken()) > 0 }) {
		grace := d.settings.StaleGrace
		if w.Spec.StaleGrace >= 0 {
			grace = w.Spec.StaleGrace
		}
		since := w.Spec.StaleSince
		if since == 0 {
			since = d.c.Now()
		}
		if grace < 0 || d.c.Now()-since < grace {
			continue
		}
		for _, group := range w.Broken() {
			d.evictStale(w, group, grace)
		}
	}
}

func (d *decider) evictStale(w *model.LiveWorkload, group int, grace int64) {
	u := &unit{w: w}
	for _, p := range w.Pods {
		if evictable(p) && p.Group >= 0 && w.Within(p.Group, group) {
			u.pods = append(u.pods, p)
		}
	}
	if len(u.pods) == 0 || d.forbidden([]*unit{u}) != "" {
		return
	}
	for _, p := range u.pods {
		d.useBudgets(p)
		d.c.Evict(p)
		d.evicted[p] = &verdict{rule: RuleStaleGang, reason: explain.Stale(w.Spec.Key, w.Groups[group].Name, len(u.pods), grace)}
	}
}
