// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/order"
)

// unit is what is taken from a victim workload at a time: a surplus pod, an
// optional sub-group, or the core that only works as a whole.
type unit struct {
	w     *model.LiveWorkload
	pods  []*model.LivePod
	core  bool
	taken bool
	turn  int // position in the stream
}

// evictable pods have a place, and were not sent to it in this round.
func evictable(p *model.LivePod) bool { return p.Phase.Active() && p.From == p.Home.From }

// peel takes a victim workload apart, unit by unit.
type peel struct {
	w    *model.LiveWorkload
	left []int // evictable pods per leaf group that no unit has yet
	gone map[*model.LivePod]bool
}

func newPeel(w *model.LiveWorkload) *peel {
	p := &peel{w: w, left: make([]int, len(w.Groups))}
	for _, pod := range w.Pods {
		if evictable(pod) && pod.Group >= 0 {
			p.left[pod.Group]++
		}
	}
	return p
}

// next returns the next unit, nil when nothing is left. With surplus only what
// the workload can do without is taken.
func (p *peel) next(surplus bool) *unit {
	pods := p.surplus(0)
	core := len(pods) == 0
	if core && surplus {
		return nil
	}
	if core {
		pods = p.all(0)
		for _, pod := range p.w.Pods { // strays belong to no group
			if pod.Group < 0 && evictable(pod) && !p.gone[pod] {
				pods = append(pods, pod)
			}
		}
	}
	if len(pods) == 0 {
		return nil
	}
	if p.gone == nil {
		p.gone = make(map[*model.LivePod]bool, len(pods))
	}
	for _, pod := range pods {
		p.gone[pod] = true
		if pod.Group >= 0 {
			p.left[pod.Group]--
		}
	}
	return &unit{w: p.w, pods: pods, core: core}
}

// surplus finds one pod, or one sub-group, that its group can do without.
func (p *peel) surplus(group int) []*model.LivePod {
	g := &p.w.Groups[group]
	if g.Leaf {
		if p.left[group]+g.Done <= g.Min {
			return nil
		}
		return p.last(group)
	}
	children := p.byFill(g.Children)
	met := 0
	for _, child := range children {
		if p.met(child) {
			met++
		}
	}
	for _, child := range slices.Backward(children) {
		if !p.met(child) {
			if pods := p.all(child); len(pods) > 0 && met >= g.Min {
				return pods
			}
			continue
		}
		if pods := p.surplus(child); len(pods) > 0 {
			return pods
		}
	}
	if met <= g.Min {
		return nil
	}
	for _, child := range slices.Backward(children) {
		if p.met(child) {
			if pods := p.all(child); len(pods) > 0 {
				return pods
			}
		}
	}
	return nil
}

// met says whether a group would still have its minimum.
func (p *peel) met(group int) bool {
	g := &p.w.Groups[group]
	if g.Leaf {
		return p.left[group]+g.Done >= g.Min
	}
	met := 0
	for _, child := range g.Children {
		if p.met(child) {
			met++
		}
	}
	return met >= g.Min
}

// byFill orders siblings as they are filled; they are emptied from the end.
func (p *peel) byFill(children []int) []int {
	out := slices.Clone(children)
	sub := func(group int) order.SubGroup {
		g := &p.w.Groups[group]
		s := order.SubGroup{Name: g.Name, Active: p.left[group], Min: g.Min}
		if !g.Leaf {
			s.Active = 0
			for _, child := range g.Children {
				if p.met(child) {
					s.Active++
				}
			}
		}
		return s
	}
	slices.SortStableFunc(out, func(a, b int) int { return order.SubGroups(sub(a), sub(b)) })
	return out
}

// last is the pod of a leaf that was placed last.
func (p *peel) last(group int) []*model.LivePod {
	pods := p.w.Groups[group].Pods
	for _, pod := range slices.Backward(pods) {
		if evictable(pod) && !p.gone[pod] {
			return []*model.LivePod{pod}
		}
	}
	return nil
}

// all lists what is left under a group.
func (p *peel) all(group int) []*model.LivePod {
	g := &p.w.Groups[group]
	var out []*model.LivePod
	for _, pod := range g.Pods {
		if evictable(pod) && !p.gone[pod] {
			out = append(out, pod)
		}
	}
	for _, child := range g.Children {
		out = append(out, p.all(child)...)
	}
	return out
}

// fill is how what is left stands to the minimum.
func (p *peel) fill() order.Fill {
	if !p.met(0) {
		return order.BelowMin
	}
	if len(p.surplus(0)) > 0 {
		return order.AboveMin
	}
	return order.AtMin
}

// cost sums up what pods cost their queue.
func (d *decider) cost(pods []*model.LivePod) amount.Vector {
	v := make(amount.Vector, len(d.t.Resources))
	for _, p := range pods {
		amount.AddTo(v, p.Charge)
	}
	return v
}
