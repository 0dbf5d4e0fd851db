// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// waits says of every workload with pods that cannot start now why, queue by
// queue in the order of jobs.
func (d *decider) waits() []Wait {
	var out []Wait
	keys := map[string]order.Job{}
	add := func(w *model.LiveWorkload) {
		if wait, ok := d.wait(w); ok {
			keys[w.Spec.Key] = keyOf(w)
			out = append(out, wait)
		}
	}
	for _, w := range d.c.Members(model.SetBacklog) {
		add(w)
	}
	for _, w := range d.c.Members(model.SetPromised) {
		if w.Pending == 0 {
			add(w)
		}
	}
	slices.SortFunc(out, func(a, b Wait) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), order.Jobs(keys[a.Workload], keys[b.Workload]))
	})
	for i := range out {
		out[i].Position = 1
		if i > 0 && out[i].Queue == out[i-1].Queue {
			out[i].Position = out[i-1].Position + 1
		}
	}
	return out
}

// wait looks at the pods of one workload. What has no place at all counts
// before what only waits for its room.
func (d *decider) wait(w *model.LiveWorkload) (Wait, bool) {
	wait := Wait{Workload: w.Spec.Key, Queue: w.Spec.Queue}
	var booked []*model.LivePod
	var stray *model.LivePod
	for _, p := range w.Pods {
		switch {
		case waiting(p):
			wait.Pods = append(wait.Pods, p.Spec.UID)
			if p.Group < 0 && stray == nil {
				stray = p
			}
		case p.Phase == model.Awaiting && !p.Spec.StandIn: // a stand-in only waits for its pod to be made
			booked = append(booked, p)
		}
	}
	switch {
	case len(wait.Pods) > 0:
		wait.Reason = d.whyUnplaced(w, stray)
	case len(booked) > 0:
		for _, p := range booked {
			wait.Pods = append(wait.Pods, p.Spec.UID)
		}
		wait.Reason = d.whyBooked(booked)
	default:
		return wait, false
	}
	return wait, true
}

func (d *decider) whyUnplaced(w *model.LiveWorkload, stray *model.LivePod) explain.Reason {
	if w.Queue == model.NoQueue {
		return explain.NoLeaf(w.Spec.Queue, d.isQueue(w.Spec.Queue))
	}
	if r, ok := d.reasons[w]; ok && r != nil {
		return *r
	}
	j := &job{w: w}
	d.refresh(j, waiting)
	switch {
	case stray != nil && (j.missing > 0 || len(j.tasks) == 0):
		return explain.StrayPod(w.Spec.Key, stray.Spec.SubGroup)
	case j.missing > 0:
		return explain.GangShort(w.Spec.Key, j.missing, w.Gated)
	}
	return explain.NotTried()
}

func (d *decider) isQueue(name string) bool {
	_, ok := d.t.Index(name)
	return ok
}

// whyBooked names the pods whose room a workload waits for.
func (d *decider) whyBooked(booked []*model.LivePod) explain.Reason {
	plan := Plan{}
	for _, p := range booked {
		plan.Placements = append(plan.Placements, d.placement(p))
	}
	d.awaits(&plan)
	names := []string{}
	victims := false
	uids := plan.Placements[0].Awaits
	for _, uid := range uids {
		p := d.c.PodByUID(uid)
		names = append(names, p.Spec.Name)
		victims = victims || d.evicted[p] != nil
	}
	return explain.RoomNotFree(plan.Placements[0].Node, victims, names, uids)
}
