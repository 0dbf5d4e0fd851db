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
	leafOf := func(subGroup string) int {
		if w.Groups[0].Leaf {
			return 0
		}
		if at, ok := leaves[subGroup]; ok {
			return at
		}
		return -1
	}
	for _, p := range w.Pods {
		if p.Group = leafOf(p.Spec.SubGroup); p.Group >= 0 {
			w.Groups[p.Group].Pods = append(w.Groups[p.Group].Pods, p)
		}
	}
	for _, p := range w.all {
		if at := leafOf(p.Spec.SubGroup); at >= 0 && p.Spec.State == Succeeded {
			w.Groups[at].Done++
		}
	}
	if w.Spec != nil && w.Groups[0].Leaf {
		w.Groups[0].Done += w.Spec.Finished
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
		w.Groups = append(w.Groups, Group{Name: s.Name, Parent: parent, Leaf: true, Min: s.MinMember, Topology: s.Topology, Done: s.Finished})
		w.Groups[parent].Children = append(w.Groups[parent].Children, at)
		w.addChildren(at, s.Name)
		if n := len(w.Groups[at].Children); n > 0 {
			w.Groups[at].Leaf = false
			w.Groups[at].Min = childMinimum(s.MinSubGroup, n)
		}
	}
}

// childMinimum is how many of n children a group needs: see SubGroup.MinSubGroup.
func childMinimum(asked, n int) int {
	if asked == 0 || asked > n {
		return n
	}
	return max(asked, 0)
}

func (w *LiveWorkload) countGroups() {
	w.Active = 0
	for _, p := range w.Pods {
		w.count(p, 1)
	}
}

// count keeps the counters of a pod's group.
func (w *LiveWorkload) count(p *LivePod, by int) {
	w.Version++
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
	case Leaving:
		g.Leaving += by
	}
}

// Satisfied says whether a group has its minimum: of pods that book room, or,
// with started, of pods that hold it as well.
func (w *LiveWorkload) Satisfied(group int, started bool) bool {
	over := w.over()
	return w.satisfied(group, func(g *Group) int {
		n := g.Active
		if started {
			n = g.Started
		}
		if !over {
			n += g.Done
		}
		return n
	})
}

// Finished is how many members of a leaf ended well and count for its minimum:
// who stands in for a failed member does not wait for those that finished.
func (w *LiveWorkload) Finished(leaf int) int {
	if w.over() {
		return 0
	}
	return w.Groups[leaf].Done
}

// over says that all that had to end well has: pods that come now belong to
// another run, of which nobody has finished.
func (w *LiveWorkload) over() bool {
	return w.Active == 0 && (w.Spec == nil || !w.Spec.OneRun) && w.satisfied(0, func(g *Group) int { return g.Done })
}

// Broken lists the groups that run in part: some pods hold room, and even with
// those on their way out the minimum is not met. Where the root does, nothing
// else is listed; a broken sub-group that its parent can do without is. A gang
// that has begun to end well is not broken, one that is released is, whatever else holds.
func (w *LiveWorkload) Broken() []int {
	if w.Spec != nil && w.Spec.Released {
		if w.activeIn(0) > 0 {
			return []int{0}
		}
		return nil
	}
	for i := range w.Groups {
		if w.Groups[i].Done > 0 {
			return nil
		}
	}
	var out []int
	w.broken(0, &out)
	return out
}

func (w *LiveWorkload) broken(group int, out *[]int) {
	if w.activeIn(group) == 0 {
		return
	}
	if !w.satisfied(group, func(g *Group) int { return g.Active + g.Leaving }) {
		*out = append(*out, group)
		return
	}
	for _, child := range w.Groups[group].Children {
		w.broken(child, out)
	}
}

func (w *LiveWorkload) activeIn(group int) int {
	g := &w.Groups[group]
	n := g.Active
	for _, child := range g.Children {
		n += w.activeIn(child)
	}
	return n
}

// Within says whether group lies in another one or is it.
func (w *LiveWorkload) Within(group, other int) bool {
	for group > other {
		group = w.Groups[group].Parent
	}
	return group == other
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
