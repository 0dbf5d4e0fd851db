// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"hash/fnv"
	"io"
)

// Digest sums up every account and every pod's place. Equal digests before
// what-if work and after Undo show that it left no trace; equal digests of two
// clusters show that the order of calls did not matter.
func (c *Cluster) Digest() uint64 {
	h := fnv.New64a()
	for _, n := range c.nodeList {
		fmt.Fprintf(h, "n%q %t %v %d %d|", n.Spec.Name, n.Usable, n.total, n.WholeFree, n.WholeFreeNow)
		for _, name := range sortedKeys(c.nodeRes) {
			i := c.nodeRes[name]
			fmt.Fprintf(h, "%q %d %d %d,", name, n.Cap[i], n.Held[i], n.Booked[i])
		}
		for i := range n.GPUs {
			fmt.Fprintf(h, "%v", n.GPUs[i])
		}
	}
	for i := range c.tree.Queues {
		q := &c.tree.Queues[i]
		fmt.Fprintf(h, "q%q %v %v %v|", q.Name, q.Allocated, q.AllocatedNonPreemptible, q.Request)
	}
	fmt.Fprint(h, c.tree.Total, c.unqueued)
	for _, key := range sortedKeys(c.workloads) {
		w := c.workloads[key]
		fmt.Fprintf(h, "w%q %d %d %d|", key, w.Active, w.Pending, w.Queue)
		for i := range w.Groups {
			g := &w.Groups[i]
			fmt.Fprintf(h, "%q %d %d %d %d,", g.Name, g.Min, g.Active, g.Started, g.Leaving)
		}
	}
	for _, uid := range sortedKeys(c.pods) {
		digestPod(h, c.pods[uid])
	}
	c.digestAffinity(h)
	return h.Sum64()
}

func digestPod(h io.Writer, p *LivePod) {
	node := ""
	if p.Node != nil && p.Node.Spec != nil {
		node = p.Node.Spec.Name
	}
	fmt.Fprintf(h, "p%q %d %q %v %v|", p.Spec.UID, p.Phase, node, p.Held, p.Charge)
}

func (c *Cluster) digestAffinity(h io.Writer) {
	for _, key := range sortedKeys(c.termIndex) {
		t := &c.terms[c.termIndex[key]]
		for _, d := range sortedKeys(t.domains) {
			if n := t.domains[d]; *n != (affinityCount{}) {
				fmt.Fprintf(h, "a%q %q %v|", key, d, *n)
			}
		}
	}
}
