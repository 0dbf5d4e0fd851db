// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
)

// Digest sums up every account and every pod's place. Equal digests before
// what-if work and after Undo show that it left no trace; equal digests of two
// clusters show that the order of calls did not matter.
func (c *Cluster) Digest() uint64 {
	h := fnv.New64a()
	c.dump(h)
	return h.Sum64()
}

// Dump is what Digest sums up, for people.
func (c *Cluster) Dump() string {
	var b strings.Builder
	c.dump(&b)
	return b.String()
}

func (c *Cluster) dump(h io.Writer) {
	for _, n := range c.nodeList {
		c.dumpNode(h, n)
	}
	for i := range c.tree.Queues {
		q := &c.tree.Queues[i]
		fmt.Fprintf(h, "queue %q %v %v %v\n", q.Name, q.Allocated, q.AllocatedNonPreemptible, q.Request)
	}
	fmt.Fprintln(h, "total", c.tree.Resources, c.tree.Total, c.unqueued)
	for _, key := range sortedKeys(c.workloads) {
		w := c.workloads[key]
		fmt.Fprintf(h, "workload %q %d %d %d", key, w.Active, w.Pending, w.Queue)
		for i := range w.Groups {
			g := &w.Groups[i]
			fmt.Fprintf(h, " %q %d %d %d %d %d,", g.Name, g.Min, g.Active, g.Started, g.Leaving, g.Done)
		}
		fmt.Fprintln(h)
	}
	for _, uid := range sortedKeys(c.pods) {
		dumpPod(h, c.pods[uid])
	}
	c.dumpAffinity(h)
}

func (c *Cluster) dumpNode(h io.Writer, n *LiveNode) {
	fmt.Fprintf(h, "node %q %t %v %d %d", n.Spec.Name, n.Usable, n.total, n.WholeFree, n.WholeFreeNow)
	for _, name := range sortedKeys(c.nodeRes) {
		if i := c.nodeRes[name]; n.Cap[i] != 0 || n.Held[i] != 0 || n.Booked[i] != 0 {
			fmt.Fprintf(h, " %q %d %d %d,", name, n.Cap[i], n.Held[i], n.Booked[i])
		}
	}
	for i := range n.GPUs {
		fmt.Fprintf(h, " %v", n.GPUs[i])
	}
	fmt.Fprintln(h)
}

func dumpPod(h io.Writer, p *LivePod) {
	node := ""
	if p.Node != nil && p.Node.Spec != nil {
		node = p.Node.Spec.Name
	}
	fmt.Fprintf(h, "pod %q %d %q %v %v\n", p.Spec.UID, p.Phase, node, p.Held, p.Charge)
}

// dumpAffinity leaves out rules that no pod has any more.
func (c *Cluster) dumpAffinity(h io.Writer) {
	used := map[int]bool{}
	for _, p := range c.pods {
		for _, t := range p.Shape.Affinities {
			used[t] = true
		}
	}
	for _, key := range sortedKeys(c.termIndex) {
		if !used[c.termIndex[key]] {
			continue
		}
		t := &c.terms[c.termIndex[key]]
		for _, d := range sortedKeys(t.domains) {
			if n := t.domains[d]; *n != (affinityCount{}) {
				fmt.Fprintf(h, "affinity %q %q %v\n", key, d, *n)
			}
		}
	}
}
