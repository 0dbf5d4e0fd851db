// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/amount"
)

// Settle brings every account up to date with the Set and Remove calls since
// the last time. The work is in proportion to what they touched, and the
// result does not depend on their order.
func (c *Cluster) Settle() {
	if c.reindex {
		c.indexNodes()
	}
	if c.replant {
		c.plantTree()
	}
	if c.rematch {
		c.matchAll()
	}
	c.settleNodes()
	c.settleWorkloads()
	for i := range c.tree.Total {
		c.tree.Total[i] = c.nodeTotal[i].Sub(c.unqueued[i]).Max(0)
	}
}

// indexNodes sorts the nodes by name after some came or went.
func (c *Cluster) indexNodes() {
	c.reindex = false
	c.layout++
	c.nodeList = c.nodeList[:0]
	for name, n := range c.nodes {
		switch {
		case n.Spec != nil:
			c.nodeList = append(c.nodeList, n)
		case len(n.Pods) == 0 && !n.dirty:
			delete(c.nodes, name)
		default:
			n.Index = -1
		}
	}
	slices.SortFunc(c.nodeList, func(a, b *LiveNode) int { return compareStrings(a.Spec.Name, b.Spec.Name) })
	for i, n := range c.nodeList {
		n.Index = i
	}
}

// settleNodes recomputes the accounts of nodes that changed from their pods.
func (c *Cluster) settleNodes() {
	sizesBefore := len(c.sizes)
	sizesChanged := false
	for _, n := range c.dirtyNodes {
		sizesChanged = c.resizeNode(n) || sizesChanged
	}
	if sizesChanged || sizesBefore == 0 {
		c.collectSizes()
	}
	for _, n := range c.dirtyNodes {
		c.settleNode(n)
		n.dirty = false
	}
	c.dirtyNodes = c.dirtyNodes[:0]
}

// resizeNode counts a node's GPU memory sizes and says whether they changed.
func (c *Cluster) resizeNode(n *LiveNode) bool {
	var sizes []int64
	if n.Spec != nil && n.Spec.Ready {
		for i := range n.Spec.GPUs {
			if g := &n.Spec.GPUs[i]; g.Shareable && g.MemoryMiB > 0 {
				sizes = append(sizes, g.MemoryMiB)
			}
		}
	}
	if slices.Equal(sizes, n.sizes) {
		return false
	}
	for _, s := range n.sizes {
		if c.sizeCount[s]--; c.sizeCount[s] == 0 {
			delete(c.sizeCount, s)
		}
	}
	for _, s := range sizes {
		c.sizeCount[s]++
	}
	n.sizes = sizes
	return true
}

// collectSizes lists the GPU sizes; when they changed, memory claims cost
// something else.
func (c *Cluster) collectSizes() {
	sizes := make([]int64, 0, len(c.sizeCount))
	for s := range c.sizeCount {
		sizes = append(sizes, s)
	}
	slices.Sort(sizes)
	if slices.Equal(sizes, c.sizes) {
		return
	}
	c.sizes = sizes
	c.chargeEpoch++
	for _, w := range c.workloads {
		if slices.ContainsFunc(w.all, func(p *LivePod) bool { return p.Shape.Memory }) {
			c.touchWork(w)
		}
	}
}

// gpuSizes lists the distinct memory sizes of GPUs, ascending.
func (c *Cluster) gpuSizes() []int64 { return c.sizes }

// settleNode rebuilds a node's accounts.
func (c *Cluster) settleNode(n *LiveNode) {
	usable := n.Spec != nil && n.Spec.Ready && !n.Spec.Unschedulable
	if usable != n.Usable {
		n.Usable = usable
		for _, p := range n.Pods {
			c.touchWork(p.Workload)
		}
	}
	c.forgetAffinity(n)
	if n.Spec != nil {
		for name := range n.Spec.Allocatable {
			c.nodeResource(name)
		}
	}
	size := len(c.nodeRes)
	n.Cap, n.Held, n.Booked = make([]int64, size), make([]int64, size), make([]int64, size)
	n.GPUs = n.GPUs[:0]
	n.Plain = n.Spec != nil && len(n.Spec.GPUs) == 0
	if n.Spec != nil {
		for name, q := range n.Spec.Allocatable {
			n.Cap[c.nodeResource(name)] = int64(q)
			n.Plain = n.Plain && (q == 0 || !strings.HasPrefix(name, ResourceMIGPrefix))
		}
		for _, g := range n.Spec.GPUs {
			n.GPUs = append(n.GPUs, LiveGPU{GPU: g})
		}
	}
	n.Class = c.gpuClass(n)
	n.recountFree()
	c.settleTotal(n)
	slices.SortFunc(n.Pods, byUID)
	for pass := range 2 {
		for _, p := range n.Pods {
			auto := len(p.Spec.Held) == 0 && len(p.Spec.Claims) > 0
			if auto != (pass == 1) {
				continue
			}
			had := p.Home.Held
			if auto {
				p.Home.Held = autoHolds(n, p.Spec.Claims)
			} else {
				p.Home.Held = c.givenHolds(n, p)
			}
			if !slices.Equal(had, p.Home.Held) {
				c.touchWork(p.Workload) // another GPU may cost something else
			}
			c.takeNode(n, p, p.Home, 1)
		}
	}
	for _, p := range n.Pods {
		p.Place = p.Home
	}
	c.Touched(n)
}

// settleTotal replaces a node's part of the cluster's capacity.
func (c *Cluster) settleTotal(n *LiveNode) {
	for i, a := range n.total {
		c.nodeTotal[i] = c.nodeTotal[i].Sub(a)
	}
	n.total = nil
	if !n.Usable {
		return
	}
	n.total = make([]amount.Amount, len(c.tree.Resources))
	for name, q := range n.Spec.Allocatable {
		if i, ok := c.treeIndex[name]; ok && i != AtGPU {
			n.total[i] += q
		}
		n.total[AtGPU] += amount.Amount(c.migMilli(name) * int64(q))
	}
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Healthy {
			n.total[AtGPU] += 1000
			if r, ok := c.treeIndex[ResourceGPUModelPrefix+g.Model]; ok {
				n.total[r] += 1000
			}
		}
	}
	for i, a := range n.total {
		c.nodeTotal[i] = c.nodeTotal[i].Add(a)
	}
}

// settleWorkloads rebuilds the groups and the accounts of workloads that
// changed.
func (c *Cluster) settleWorkloads() {
	for _, w := range c.dirtyWork {
		w.dirty = false
		c.withdraw(w)
		if w.Spec == nil && len(w.all) == 0 {
			for set := range numSets {
				c.setMember(set, w, false)
			}
			delete(c.workloads, w.key)
			continue
		}
		c.settleWorkload(w)
	}
	c.dirtyWork = c.dirtyWork[:0]
}

func (c *Cluster) settleWorkload(w *LiveWorkload) {
	w.Pods, w.Pending, w.Gated, w.Active = w.Pods[:0], 0, 0, 0
	promised := false
	for _, p := range w.all {
		switch p.Spec.State {
		case Succeeded, Failed:
			continue
		case Pending:
			w.Pending++
		case Gated:
			w.Gated++
		case Promised:
			promised = true
		}
		w.Pods = append(w.Pods, p)
	}
	slices.SortFunc(w.Pods, taskOrder)
	w.buildGroups()
	w.Queue = NoQueue
	if w.Spec != nil {
		if q, ok := c.queueIndex[w.Spec.Queue]; ok && c.tree.Leaf(q) {
			w.Queue = q
		}
	}
	c.contribute(w)
	w.countGroups()
	known := w.Spec != nil && w.Spec.Queue != ""
	c.setMember(SetBacklog, w, known && w.Pending > 0)
	c.setMember(SetRunning, w, known && w.Active > 0)
	c.setMember(SetPromised, w, known && promised)
	c.setMember(SetShort, w, known && len(w.Broken()) > 0)
}

// taskOrder puts pods of one workload in the order in which they are placed:
// leaders, then by explicit order, age and name.
func taskOrder(a, b *LivePod) int {
	x, y := a.Spec, b.Spec
	switch {
	case x.Leader != y.Leader:
		return before(x.Leader)
	case x.HasOrder != y.HasOrder:
		return before(x.HasOrder)
	case x.HasOrder && x.Order != y.Order:
		return before(x.Order > y.Order)
	}
	return cmp.Or(cmp.Compare(x.CreatedAt, y.CreatedAt), compareStrings(x.Name, y.Name), compareStrings(x.UID, y.UID))
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

// contribute adds a workload to the accounts of its queue and of those above.
func (c *Cluster) contribute(w *LiveWorkload) {
	n := len(c.tree.Resources)
	w.cost = contribution{allocated: make([]amount.Amount, n), request: make([]amount.Amount, n)}
	w.cost.preemptible = w.Spec == nil || w.Spec.Preemptible
	for _, p := range w.Pods {
		switch {
		case p.Home.Phase.Active():
			p.Charge = c.ChargeAt(p.Shape, p.Home.Node, p.Home.Held)
			if w.Queue != NoQueue || p.Home.Node.Usable {
				amount.AddTo(w.cost.allocated, p.Charge)
				amount.AddTo(w.cost.request, p.Charge)
			}
		case p.Home.Phase == Idle:
			p.Charge = c.Estimate(p.Shape)
			if p.Spec.State == Pending {
				amount.AddTo(w.cost.request, p.Charge)
			}
		default:
			p.Charge = c.ChargeAt(p.Shape, p.Home.Node, p.Home.Held)
			if p.Spec.Returns && w.recreated() {
				amount.AddTo(w.cost.request, c.Estimate(p.Shape))
			}
		}
	}
	w.inQueue = w.Queue
	if w.Queue == NoQueue {
		amount.AddTo(c.unqueued, w.cost.allocated)
		return
	}
	for q := w.Queue; q != NoQueue; q = c.tree.Queues[q].Parent {
		node := &c.tree.Queues[q]
		amount.AddTo(node.Allocated, w.cost.allocated)
		amount.AddTo(node.Request, w.cost.request)
		if !w.cost.preemptible {
			amount.AddTo(node.AllocatedNonPreemptible, w.cost.allocated)
		}
	}
}

func (w *LiveWorkload) recreated() bool { return w.Spec != nil && w.Spec.Recreated }

// withdraw takes back what contribute added.
func (c *Cluster) withdraw(w *LiveWorkload) {
	defer func() { w.cost = contribution{} }()
	if w.inQueue == NoQueue {
		amount.SubFrom(c.unqueued, w.cost.allocated)
		return
	}
	for q := w.inQueue; q != NoQueue; q = c.tree.Queues[q].Parent {
		node := &c.tree.Queues[q]
		amount.SubFrom(node.Allocated, w.cost.allocated)
		amount.SubFrom(node.Request, w.cost.request)
		if !w.cost.preemptible {
			amount.SubFrom(node.AllocatedNonPreemptible, w.cost.allocated)
		}
	}
}
