// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// job is a workload with what it asks for at a time.
type job struct {
	w     *model.LiveWorkload
	tasks []*model.LivePod
	// need is what the tasks cost the queue.
	need amount.Vector
	// gang says that the tasks are missing members of a minimum, to be placed
	// all or none.
	gang bool
	key  order.Job
	// missing members, when the minimum cannot be reached with the pods there
	// are.
	missing int
	// version of the workload that the tasks were worked out for.
	version uint64
	// fixed tasks were given and are not worked out again.
	fixed bool
	// kept jobs serve several walks: what was worked out for a version of the
	// workload stays.
	kept bool
	// lenient jobs are content with fewer pods than their minimum.
	lenient bool
}

// available says whether a pod may be given a place.
type available func(p *model.LivePod) bool

// waiting pods have no room and are the plan's to place.
func waiting(p *model.LivePod) bool {
	return p.Phase == model.Idle && (p.Spec.State == model.Pending || p.Spec.State == model.Promised) && !p.Spec.StandIn
}

// refresh works out the next chunk of a job.
func (d *decider) refresh(j *job, free available) {
	w := j.w
	if j.kept && j.need != nil && j.version == w.Version {
		return
	}
	j.key = order.Job{Priority: w.Spec.Priority, Fill: fill(w), CreatedAt: w.Spec.CreatedAt, Key: w.Spec.Key}
	if j.version = w.Version; j.fixed {
		return
	}
	j.tasks, j.missing = j.tasks[:0], 0
	j.gang = !w.Satisfied(0, false)
	if j.gang {
		j.tasks, j.missing = required(w, 0, free, j.tasks)
	} else {
		j.tasks = extra(w, 0, free, j.tasks)
	}
	if j.lenient {
		j.missing = 0
	}
	d.charge(j)
}

func (d *decider) charge(j *job) {
	if j.need == nil {
		j.need = make(amount.Vector, len(d.t.Resources))
	} else {
		clear(j.need)
	}
	for _, p := range j.tasks {
		amount.AddTo(j.need, d.c.Estimate(p.Shape))
	}
}

// fill is how a workload stands to its minimum.
func fill(w *model.LiveWorkload) order.Fill {
	if !w.Satisfied(0, false) {
		if w.Active > 0 {
			return order.Broken
		}
		return order.BelowMin
	}
	if hasSurplus(w, 0) {
		return order.AboveMin
	}
	return order.AtMin
}

// hasSurplus says whether a group holds room that it can do without: a pod, or a
// sub-group.
func hasSurplus(w *model.LiveWorkload, group int) bool {
	g := &w.Groups[group]
	if g.Leaf {
		return g.Active > 0 && g.Active+g.Done > g.Min
	}
	met := 0
	for _, child := range g.Children {
		if w.Satisfied(child, false) {
			met++
		}
	}
	return slices.ContainsFunc(g.Children, func(child int) bool {
		spare := met > g.Min || met == g.Min && !w.Satisfied(child, false)
		return hasSurplus(w, child) || spare && isActive(w, child)
	})
}

// isActive says whether some pod of a group books room.
func isActive(w *model.LiveWorkload, group int) bool {
	g := &w.Groups[group]
	return g.Active > 0 || slices.ContainsFunc(g.Children, func(child int) bool { return isActive(w, child) })
}

// required collects what a group needs to reach its minimum; missing is how
// many members there are too few.
func required(w *model.LiveWorkload, group int, free available, tasks []*model.LivePod) ([]*model.LivePod, int) {
	g := &w.Groups[group]
	if g.Leaf {
		need := g.Min - g.Active - w.Finished(group)
		for _, p := range g.Pods {
			if need > 0 && free(p) {
				tasks = append(tasks, p)
				need--
			}
		}
		return tasks, max(0, need)
	}
	need := g.Min
	var open []int
	for _, child := range g.Children {
		if w.Satisfied(child, false) {
			need--
		} else {
			open = append(open, child)
		}
	}
	var shortest []int
	for _, child := range open {
		if need <= 0 {
			return tasks, 0
		}
		more, missing := required(w, child, free, nil)
		if missing > 0 {
			shortest = append(shortest, missing)
			continue
		}
		tasks = append(tasks, more...)
		need--
	}
	slices.Sort(shortest)
	missing := 0
	for _, m := range shortest[:min(max(0, need), len(shortest))] {
		missing += m
	}
	return tasks, missing
}

// extra finds the next step of growth above the minimum: one pod, or a whole
// optional sub-group.
func extra(w *model.LiveWorkload, group int, free available, tasks []*model.LivePod) []*model.LivePod {
	g := &w.Groups[group]
	if g.Leaf {
		for _, p := range g.Pods {
			if free(p) {
				return append(tasks, p)
			}
		}
		return tasks
	}
	for _, child := range byFill(w, g.Children) {
		var more []*model.LivePod
		if w.Satisfied(child, false) {
			more = extra(w, child, free, nil)
		} else if got, missing := required(w, child, free, nil); missing == 0 {
			more = got
		}
		if len(more) > 0 {
			return append(tasks, more...)
		}
	}
	return tasks
}

// byFill orders sibling sub-groups by how much they lack.
func byFill(w *model.LiveWorkload, children []int) []int {
	out := slices.Clone(children)
	slices.SortStableFunc(out, func(a, b int) int { return order.SubGroups(subGroup(w, a), subGroup(w, b)) })
	return out
}

func subGroup(w *model.LiveWorkload, group int) order.SubGroup {
	g := &w.Groups[group]
	s := order.SubGroup{Name: g.Name, Active: g.Active, Min: g.Min}
	if !g.Leaf {
		s.Active = 0
		for _, child := range g.Children {
			if w.Satisfied(child, false) {
				s.Active++
			}
		}
	}
	return s
}
