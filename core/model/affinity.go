// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strings"
)

// affinityTerm is one distinct required rule between pods, with how many pods
// match and how many have it, per value of its topology key.
type affinityTerm struct {
	labels  map[string]string
	key     string
	anti    bool
	domains map[string]*affinityCount
	matches [2]int
}

// affinityCount counts in the two views of LiveGPU, held first.
type affinityCount struct {
	matches, owners [2]int
}

// nodeAffinity is one node's part of a term's counts.
type nodeAffinity struct {
	term   int
	domain string
	affinityCount
}

// affinityTerm numbers a rule.
func (c *Cluster) affinityTerm(a PodAffinity) int {
	var b strings.Builder
	writeAffinity(&b, a)
	if i, ok := c.termIndex[b.String()]; ok {
		return i
	}
	c.termIndex[b.String()] = len(c.terms)
	c.terms = append(c.terms, affinityTerm{labels: a.MatchLabels, key: a.TopologyKey, anti: a.Anti, domains: map[string]*affinityCount{}})
	c.rematch = true
	return len(c.terms) - 1
}

// sweepTerms forgets rules that no shape has any more, once they are many.
func (c *Cluster) sweepTerms() {
	const slack = 64
	used := map[int]bool{}
	for _, s := range c.shapes {
		for _, t := range s.Affinities {
			used[t] = true
		}
	}
	if len(c.terms) < slack+2*len(used) {
		return
	}
	c.terms, c.termIndex, c.rematch = nil, map[string]int{}, true
	for _, n := range c.nodes {
		n.affinity = n.affinity[:0]
	}
	for _, key := range sortedKeys(c.shapes) {
		s := c.shapes[key]
		for i, a := range s.affinities {
			s.Affinities[i] = c.affinityTerm(a)
		}
	}
}

// matchTerms lists the rules whose labels a pod has.
func (c *Cluster) matchTerms(labels map[string]string) []int {
	var out []int
	for i := range c.terms {
		if hasLabels(labels, c.terms[i].labels) {
			out = append(out, i)
		}
	}
	return out
}

func hasLabels(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// matchAll matches every pod again after a new rule came.
func (c *Cluster) matchAll() {
	c.rematch = false
	for _, p := range c.pods {
		p.Matches = c.matchTerms(p.Spec.Labels)
	}
	for _, n := range c.nodes {
		c.touchNode(n, false)
	}
}

// countAffinity adds or removes a pod in the counts of its rules.
func (c *Cluster) countAffinity(n *LiveNode, p *LivePod, holds, books bool, sign int) {
	if n.Spec == nil {
		return
	}
	for _, t := range p.Matches {
		c.bump(n, t, true, holds, books, sign)
	}
	for _, t := range p.Shape.Affinities {
		if c.terms[t].anti {
			c.bump(n, t, false, holds, books, sign)
		}
	}
}

func (c *Cluster) bump(n *LiveNode, t int, match, holds, books bool, sign int) {
	term := &c.terms[t]
	domain, ok := n.Spec.Labels[term.key]
	if !ok {
		return
	}
	at := slices.IndexFunc(n.affinity, func(a nodeAffinity) bool { return a.term == t })
	if at < 0 {
		at = len(n.affinity)
		n.affinity = append(n.affinity, nodeAffinity{term: t, domain: domain})
	}
	d := term.domains[domain]
	if d == nil {
		d = &affinityCount{}
		term.domains[domain] = d
	}
	for view, on := range [2]bool{holds, books} {
		switch {
		case !on:
		case match:
			n.affinity[at].matches[view] += sign
			d.matches[view] += sign
			term.matches[view] += sign
		default:
			n.affinity[at].owners[view] += sign
			d.owners[view] += sign
		}
	}
}

// forgetAffinity takes a node out of all counts.
func (c *Cluster) forgetAffinity(n *LiveNode) {
	for i := range n.affinity {
		a := &n.affinity[i]
		term := &c.terms[a.term]
		d := term.domains[a.domain]
		for view := range 2 {
			d.matches[view] -= a.matches[view]
			d.owners[view] -= a.owners[view]
			term.matches[view] -= a.matches[view]
		}
	}
	n.affinity = n.affinity[:0]
}

// HasAffinity says whether rules between pods bear on a pod.
func (p *LivePod) HasAffinity() bool { return len(p.Matches) > 0 || len(p.Shape.Affinities) > 0 }

// AffinityAllows says whether the rules between pods let p onto a node, now or
// once all that is being released is gone.
func (c *Cluster) AffinityAllows(p *LivePod, n *LiveNode) (now, later bool) {
	return c.affinityAllows(p, n, 0) && c.affinityAllows(p, n, 1), c.affinityAllows(p, n, 1)
}

func (c *Cluster) affinityAllows(p *LivePod, n *LiveNode, view int) bool {
	for _, t := range p.Shape.Affinities {
		term := &c.terms[t]
		domain, ok := n.Spec.Labels[term.key]
		d := term.domains[domain]
		near := ok && d != nil && d.matches[view] > 0
		if term.anti {
			if near {
				return false
			}
			continue
		}
		first := term.matches[view] == 0 && slices.Contains(p.Matches, t)
		if !ok || !near && !first {
			return false
		}
	}
	for _, t := range p.Matches {
		term := &c.terms[t]
		if !term.anti {
			continue
		}
		if domain, ok := n.Spec.Labels[term.key]; ok {
			if d := term.domains[domain]; d != nil && d.owners[view] > 0 {
				return false
			}
		}
	}
	return true
}
