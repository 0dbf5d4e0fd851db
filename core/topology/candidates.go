// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// Set is a candidate set of nodes.
type Set struct {
	Nodes []*model.LiveNode
	// Rank prefers nodes of roomier domains of the preferred level, nil if
	// there is none.
	Rank func(n *model.LiveNode) int
}

// Candidates lists the node sets for tasks under a constraint within nodes
// (nil for all), best first, or says why there is none. hosts are the nodes of
// pods of the same group that already run.
func Candidates(c *model.Cluster, k *model.TopologyConstraint, tasks []*model.LivePod, nodes, hosts []*model.LiveNode) ([]Set, *explain.Reason) {
	t, required, preferred, reason := resolve(c, k)
	if reason != nil {
		return nil, reason
	}
	s := survey(c, t, tasks, nodes)
	deepest := preferred
	if deepest < 0 {
		deepest = required
	}
	start := s.start(nodes, deepest)
	beyond := required < 0 && len(s.outside) > 0
	if !beyond && !s.supplies[start.index].holds(&s.demand) {
		return nil, s.tooSmall(start, k)
	}
	s.sortBelow(start, deepest)
	allowed := s.hostDomains(hosts, required)
	var out []Set
	rank := s.ranks(start, preferred)
	for level := deepest; level >= required; level-- {
		s.visit(start, level, func(d *Domain) {
			if s.supplies[d.index].holds(&s.demand) && (allowed == nil || allowed[s.tree.ancestor(d, required)]) {
				out = append(out, Set{s.inside(d), rank})
			}
		})
		if level <= start.Level {
			break
		}
	}
	if beyond {
		out = append(out, Set{append(s.inside(start), s.outside...), rank})
	}
	if len(out) == 0 {
		return nil, s.closest(start, required, allowed, k)
	}
	return out, nil
}

func resolve(c *model.Cluster, k *model.TopologyConstraint) (t *Tree, required, preferred int, reason *explain.Reason) {
	invalid := func(format string, args ...any) *explain.Reason {
		return &explain.Reason{Code: explain.TopologyInvalid, Message: fmt.Sprintf(format, args...)}
	}
	t = Of(c, k.Topology)
	if t == nil {
		return nil, 0, 0, invalid("topology %q does not exist", k.Topology)
	}
	if k.Required == "" && k.Preferred == "" {
		return nil, 0, 0, invalid("topology %q is named without a required or a preferred level", k.Topology)
	}
	required, preferred = t.Level(k.Required), t.Level(k.Preferred)
	levels := strings.Join(t.Levels, ", ")
	switch {
	case k.Required != "" && required < 0:
		return nil, 0, 0, invalid("topology %q has no level %q; its levels are %s", k.Topology, k.Required, levels)
	case k.Preferred != "" && preferred < 0:
		return nil, 0, 0, invalid("topology %q has no level %q; its levels are %s", k.Topology, k.Preferred, levels)
	case preferred >= 0 && preferred < required:
		preferred = required
	}
	return t, required, preferred, nil
}

// surveyed is one look at the room of every domain.
type surveyed struct {
	tree     *Tree
	demand   demand
	supplies []supply
	sorted   map[*Domain][]*Domain
	within   map[*model.LiveNode]bool // nil for all nodes
	outside  []*model.LiveNode        // candidates that the topology does not cover
}

func survey(c *model.Cluster, t *Tree, tasks []*model.LivePod, nodes []*model.LiveNode) *surveyed {
	width := c.NodeResources()
	s := &surveyed{tree: t, demand: demandOf(c, tasks, width), supplies: make([]supply, len(t.domains)), sorted: map[*Domain][]*Domain{}}
	for i := range s.supplies {
		s.supplies[i] = supply{make([]int64, width+1), make([]int, len(s.demand.shapes))}
	}
	candidates := nodes
	if nodes == nil {
		candidates = c.NodeList()
	} else {
		s.within = make(map[*model.LiveNode]bool, len(nodes))
	}
	for _, n := range candidates {
		if nodes != nil {
			s.within[n] = true
		}
		d := t.At(n, len(t.Levels))
		if d == nil {
			s.outside = append(s.outside, n)
			continue
		}
		if n.Usable {
			s.supplies[d.index].addNode(&s.demand, c, n)
		}
	}
	for i := len(t.domains) - 1; i > 0; i-- {
		d := t.domains[i]
		s.supplies[d.Parent.index].add(&s.supplies[i])
	}
	return s
}

// start is the lowest domain that holds all candidate nodes, not below the
// deepest level asked for.
func (s *surveyed) start(nodes []*model.LiveNode, deepest int) *Domain {
	if nodes == nil {
		return s.tree.Root
	}
	var common *Domain
	for _, n := range nodes {
		d := s.tree.At(n, deepest)
		for common != nil && d != nil && d != common {
			if d.Level >= common.Level {
				d = d.Parent
			} else {
				common = common.Parent
			}
		}
		if d != nil {
			common = d
		}
	}
	if common == nil {
		return s.tree.Root
	}
	return common
}

// sortBelow sorts children, fullest first, then by ID, down to a level.
func (s *surveyed) sortBelow(d *Domain, deepest int) {
	if d.Level >= deepest {
		return
	}
	children := slices.Clone(d.Children)
	slices.SortFunc(children, func(a, b *Domain) int {
		x, y := s.supplies[a.index].load(&s.demand), s.supplies[b.index].load(&s.demand)
		if c := y.compare(x); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	s.sorted[d] = children
	for _, child := range children {
		s.sortBelow(child, deepest)
	}
}

// visit calls f for the domains of a level at or below d, in sorted order.
func (s *surveyed) visit(d *Domain, level int, f func(*Domain)) {
	if d.Level >= level {
		f(d)
		return
	}
	for _, child := range s.sorted[d] {
		s.visit(child, level, f)
	}
}

// inside lists a domain's candidate nodes.
func (s *surveyed) inside(d *Domain) []*model.LiveNode {
	if s.within == nil {
		return slices.Clip(d.Nodes)
	}
	var out []*model.LiveNode
	for _, n := range d.Nodes {
		if s.within[n] {
			out = append(out, n)
		}
	}
	return out
}

// ranks gives nodes of roomier domains of the preferred level a higher rank.
func (s *surveyed) ranks(start *Domain, preferred int) func(n *model.LiveNode) int {
	if preferred < 0 || preferred <= start.Level {
		return nil
	}
	rank := map[*Domain]int{}
	var order []*Domain
	s.visit(start, preferred, func(d *Domain) { order = append(order, d) })
	for i, d := range order {
		rank[d] = 10 * (i + 1) / len(order)
	}
	return func(n *model.LiveNode) int { return rank[s.tree.At(n, preferred)] }
}

// hostDomains are the domains of the required level that host running pods of
// the group, nil if there is no such restriction.
func (s *surveyed) hostDomains(hosts []*model.LiveNode, required int) map[*Domain]bool {
	if required < 0 || len(hosts) == 0 {
		return nil
	}
	allowed := map[*Domain]bool{}
	for _, n := range hosts {
		if d := s.tree.At(n, required); d != nil {
			allowed[d] = true
		}
	}
	return allowed
}

func (t *Tree) ancestor(d *Domain, level int) *Domain {
	for d != nil && d.Level > level {
		d = d.Parent
	}
	return d
}

// tooSmall says that not even the widest domain has room.
func (s *surveyed) tooSmall(d *Domain, k *model.TopologyConstraint) *explain.Reason {
	return s.reason(d, fmt.Sprintf("topology %s: %s has room for %d of %s", k.Topology, d.Name(), s.room(d), pods(len(s.demand.tasks))))
}

// closest names the domain of the required level with the most room, among
// those that host running pods of the group if there are any.
func (s *surveyed) closest(start *Domain, required int, allowed map[*Domain]bool, k *model.TopologyConstraint) *explain.Reason {
	var best *Domain
	s.visit(start, required, func(d *Domain) {
		if (allowed == nil || allowed[d]) && (best == nil || s.room(d) > s.room(best)) {
			best = d
		}
	})
	switch {
	case best == nil:
		return s.tooSmall(start, k)
	case allowed != nil:
		return s.reason(best, fmt.Sprintf("topology %s: the pods that run are in %s of level %s, which has room for %d of %s more",
			k.Topology, best.Name(), k.Required, s.room(best), pods(len(s.demand.tasks))))
	}
	return s.reason(best, fmt.Sprintf("topology %s: no domain of level %s has room for %s; %s comes closest with room for %d",
		k.Topology, k.Required, pods(len(s.demand.tasks)), best.Name(), s.room(best)))
}

// room is how many tasks fit a domain.
func (s *surveyed) room(d *Domain) int { return s.supplies[d.index].room(&s.demand) }

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

func (s *surveyed) reason(d *Domain, message string) *explain.Reason {
	return &explain.Reason{
		Code: explain.TopologyDoesNotFit, Message: message, Domain: d.Name(),
		Missing: len(s.demand.tasks) - s.room(d), LargestFree: int64(s.room(d)),
	}
}
