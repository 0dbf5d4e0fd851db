// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import "slices"

// buildGroups compiles the tree of sub-groups and sorts the pods into it.
func (w *LiveWorkload) buildGroups() {
	w.Groups = w.Groups[:0]
	if w.Spec == nil {
		w.Groups = append(w.Groups, Group{Parent: -1, Leaf: true})
	} else {
		w.Groups = append(w.Groups, Group{Parent: -1, Leaf: len(w.Spec.SubGroups) == 0, Min: w.Spec.MinMember, Topology: w.Spec.Topology})
		w.addChildren(0, "")
		if !w.Groups[0].Leaf {
			w.Groups[0].Min = childMinimum(w.Spec.MinSubGroup, len(w.Groups[0].Children))
		}
	}
	leaves := map[string]int{}
	for i := range w.Groups {
		if w.Groups[i].Leaf {
			leaves[w.Groups[i].Name] = i
		}
	}
	for _, p := range w.Pods {
		p.Group = -1
		at, ok := leaves[p.Spec.SubGroup]
		if w.Groups[0].Leaf {
			at, ok = 0, true
		}
		if ok {
			p.Group = at
			w.Groups[at].Pods = append(w.Groups[at].Pods, p)
		}
	}
}

// addChildren appends the sub-groups below one, by name, level by level so
// that parents come first.
func (w *LiveWorkload) addChildren(parent int, name string) {
	var children []SubGroup
	for _, s := range w.Spec.SubGroups {
		if s.Parent == name {
			children = append(children, s)
		}
	}
	slices.SortFunc(children, func(a, b SubGroup) int { return compareStrings(a.Name, b.Name) })
	for _, s := range children {
		at := len(w.Groups)
		w.Groups = append(w.Groups, Group{Name: s.Name, Parent: parent, Leaf: true, Min: s.MinMember, Topology: s.Topology})
		w.Groups[parent].Children = append(w.Groups[parent].Children, at)
		w.addChildren(at, s.Name)
		if n := len(w.Groups[at].Children); n > 0 {
			w.Groups[at].Leaf = false
			w.Groups[at].Min = childMinimum(s.MinSubGroup, n)
		}
	}
}

// childMinimum is how many of n children a group needs; 0 means all.
func childMinimum(asked, n int) int {
	if asked <= 0 || asked > n {
		return n
	}
	return asked
}

func (w *LiveWorkload) countGroups() {
	w.Active = 0
	for _, p := range w.Pods {
		w.count(p, 1)
	}
}

// count keeps the counters of a pod's group.
func (w *LiveWorkload) count(p *LivePod, by int) {
	if p.Phase.Active() {
		w.Active += by
	}
	if p.Group < 0 || p.Group >= len(w.Groups) {
		return
	}
	g := &w.Groups[p.Group]
	switch p.Phase {
	case Awaiting:
		g.Active += by
	case Started:
		g.Active += by
		g.Started += by
	case Leaving, Jammed:
		g.Leaving += by
	}
}

// Satisfied says whether a group has its minimum: of pods that book room, or,
// with started, of pods that hold it as well.
func (w *LiveWorkload) Satisfied(group int, started bool) bool {
	return w.satisfied(group, func(g *Group) int {
		if started {
			return g.Started
		}
		return g.Active
	})
}

// SatisfiedBy is Satisfied with another count of a leaf's members.
func (w *LiveWorkload) SatisfiedBy(members func(leaf *Group) int) bool {
	return w.satisfied(0, members)
}

func (w *LiveWorkload) satisfied(group int, members func(leaf *Group) int) bool {
	g := &w.Groups[group]
	if g.Leaf {
		return members(g) >= g.Min
	}
	n := 0
	for _, child := range g.Children {
		if w.satisfied(child, members) {
			n++
		}
	}
	return n >= g.Min
}

// Charges says whether some pod that books room costs anything of resource r.
func (w *LiveWorkload) Charges(r int) bool {
	for _, p := range w.Pods {
		if p.Phase.Active() && p.Charge[r] > 0 {
			return true
		}
	}
	return false
}
