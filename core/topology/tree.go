// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/model"
)

// Domain is a set of nodes that share the labels of all levels down to one.
// The root, at level -1, holds every node that carries all labels.
type Domain struct {
	ID       string // label values from the widest level, joined by "/"
	Level    int
	Parent   *Domain
	Children []*Domain
	Nodes    []*model.LiveNode // by name
	index    int
}

// Name words a domain for people.
func (d *Domain) Name() string {
	if d.Level < 0 {
		return "the whole topology"
	}
	return d.ID
}

// Tree is a topology over the present nodes.
type Tree struct {
	Levels  []string
	Root    *Domain
	domains []*Domain
	// lowest is a node's domain of the last level, by node index.
	lowest []*Domain
}

// Level is the index of a level's label, -1 if there is none.
func (t *Tree) Level(label string) int { return slices.Index(t.Levels, label) }

// At is a node's domain at a level, nil outside of the topology.
func (t *Tree) At(n *model.LiveNode, level int) *Domain {
	if n.Index < 0 || n.Index >= len(t.lowest) {
		return nil
	}
	d := t.lowest[n.Index]
	for d != nil && d.Level > level {
		d = d.Parent
	}
	return d
}

// cache keeps trees until labels or topologies change.
type cache struct {
	epoch, layout uint64
	trees         map[string]*Tree
}

// Of returns the tree of a topology, nil if there is no such topology.
func Of(c *model.Cluster, name string) *Tree {
	kept, ok := c.Scratch.(*cache)
	if !ok || kept.epoch != c.LabelEpoch() || kept.layout != c.Layout() {
		kept = &cache{epoch: c.LabelEpoch(), layout: c.Layout(), trees: map[string]*Tree{}}
		c.Scratch = kept
	}
	if t, ok := kept.trees[name]; ok {
		return t
	}
	spec, ok := c.Topology(name)
	if !ok {
		return nil
	}
	t := build(spec, c.NodeList())
	kept.trees[name] = t
	return t
}

func build(spec model.Topology, nodes []*model.LiveNode) *Tree {
	t := &Tree{Levels: spec.Levels, Root: &Domain{Level: -1}, lowest: make([]*Domain, len(nodes))}
	t.domains = []*Domain{t.Root}
	byID := map[string]*Domain{}
	for _, n := range nodes {
		values := make([]string, 0, len(spec.Levels))
		for _, label := range spec.Levels {
			if v, ok := n.Spec.Labels[label]; ok {
				values = append(values, v)
			}
		}
		if len(values) < len(spec.Levels) {
			continue
		}
		d := t.Root
		d.Nodes = append(d.Nodes, n)
		for level := range values {
			d = t.child(byID, d, strings.Join(values[:level+1], "/"), level)
			d.Nodes = append(d.Nodes, n)
		}
		t.lowest[n.Index] = d
	}
	return t
}

func (t *Tree) child(byID map[string]*Domain, parent *Domain, id string, level int) *Domain {
	key := string(rune('0'+level)) + id
	if d, ok := byID[key]; ok {
		return d
	}
	d := &Domain{ID: id, Level: level, Parent: parent, index: len(t.domains)}
	t.domains = append(t.domains, d)
	byID[key] = d
	parent.Children = append(parent.Children, d)
	return d
}
