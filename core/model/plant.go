// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
)

// plantTree rebuilds the queue tree after some queue changed. All workloads
// are charged anew.
func (c *Cluster) plantTree() {
	c.replant = false
	c.chargeEpoch++
	c.nameResources()
	depth := c.queueDepths()
	names := make([]string, 0, len(depth))
	for name := range depth {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(depth[a], depth[b]), compareStrings(a, b))
	})
	c.queueIndex = make(map[string]int, len(names))
	c.tree.Queues = make([]QueueNode, len(names))
	c.tree.Roots = nil
	for i, name := range names {
		c.queueIndex[name] = i
		c.tree.Queues[i] = c.queueNode(c.queues[name])
		parent := c.queues[name].Parent
		if parent == "" {
			c.tree.Roots = append(c.tree.Roots, i)
			continue
		}
		p := c.queueIndex[parent]
		c.tree.Queues[i].Parent = p
		c.tree.Queues[p].Children = append(c.tree.Queues[p].Children, i)
	}
	c.tree.ApplyDefaults(func(i int) *Queue { return c.queues[c.tree.Queues[i].Name] })
	width := len(c.tree.Resources)
	c.tree.Total, c.unqueued = make([]amount.Amount, width), make([]amount.Amount, width)
	c.nodeTotal = make([]amount.Amount, width)
	for _, n := range c.nodes {
		n.total = nil
		if n.Spec != nil {
			c.touchNode(n, false)
		}
	}
	for _, w := range c.workloads {
		w.inQueue, w.cost = NoQueue, contribution{}
		c.touchWork(w)
	}
}

// nameResources lists the resources that queues account for.
func (c *Cluster) nameResources() {
	extra := map[string]bool{}
	for _, q := range c.queues {
		for _, m := range []Quantities{q.Quota, q.Limit, q.OverQuotaWeight} {
			for name := range m {
				extra[name] = true
			}
		}
	}
	c.tree.Resources = []string{ResourceGPU, ResourceCPU, ResourceMemory}
	for _, name := range c.tree.Resources {
		delete(extra, name)
	}
	c.tree.Resources = append(c.tree.Resources, sortedKeys(extra)...)
	c.treeIndex = make(map[string]int, len(c.tree.Resources))
	c.treeModels = false
	for i, name := range c.tree.Resources {
		c.treeIndex[name] = i
		c.treeModels = c.treeModels || IsGPUModel(name)
	}
}

// queueDepths finds the depth of each queue whose chain of parents ends in a
// root; others are left out.
func (c *Cluster) queueDepths() map[string]int {
	depth := make(map[string]int, len(c.queues))
	for name := range c.queues {
		var chain []string
		at := name
		for at != "" && len(chain) <= len(c.queues) {
			if _, known := depth[at]; known {
				break
			}
			q, ok := c.queues[at]
			if !ok {
				chain = nil
				break
			}
			chain = append(chain, at)
			at = q.Parent
		}
		if len(chain) > len(c.queues) {
			continue // its own ancestor
		}
		d := 0
		if known, ok := depth[at]; ok && at != "" {
			d = known + 1
		}
		for _, above := range slices.Backward(chain) {
			depth[above] = d
			d++
		}
	}
	return depth
}

func (c *Cluster) queueNode(q *Queue) QueueNode {
	n := QueueNode{
		Name: q.Name, Parent: NoQueue, Priority: q.Priority, CreatedAt: q.CreatedAt,
		PreemptMinRuntime: q.PreemptMinRuntime, ReclaimMinRuntime: q.ReclaimMinRuntime,
		EvictionsPerMinute: q.EvictionsPerMinute, PreemptionDelay: q.PreemptionDelay,
	}
	n.Quota, n.Limit = c.spread(q.Quota, 0), c.spread(q.Limit, amount.Unlimited)
	n.Weight, n.Usage = c.spread(q.OverQuotaWeight, 0), c.spread(q.Usage, 0)
	n.FairShare, n.Request = c.spread(nil, 0), c.spread(nil, 0)
	n.Allocated, n.AllocatedNonPreemptible = c.spread(nil, 0), c.spread(nil, 0)
	return n
}

// spread turns quantities by name into a vector.
func (c *Cluster) spread(q Quantities, missing amount.Amount) []amount.Amount {
	v := make([]amount.Amount, len(c.tree.Resources))
	for i, name := range c.tree.Resources {
		if a, ok := q[name]; ok {
			v[i] = a
		} else {
			v[i] = missing
		}
	}
	return v
}

// Tree returns the queue accounts, settled. The caller may read it until the
// next call of any method of c.
func (c *Cluster) Tree() *QueueTree {
	c.Settle()
	return &c.tree
}

// Accounts is Tree without settling, for what-if work.
func (c *Cluster) Accounts() *QueueTree { return &c.tree }

// Quantities names the entries of a queue vector, leaving out zeros.
func (t *QueueTree) Quantities(v []amount.Amount) Quantities {
	q := Quantities{}
	for i, a := range v {
		if a != 0 {
			q[t.Resources[i]] = a
		}
	}
	return q
}
