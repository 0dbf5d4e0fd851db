// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
)

// Cluster is everything that a decision is made on. It is kept up to date by
// Set and Remove calls, whose order does not matter: each only notes what it
// touched, and Settle brings the accounts of just that up to date. It is not
// safe for concurrent use.
type Cluster struct {
	settings Settings
	now      int64

	nodes      map[string]*LiveNode
	nodeList   []*LiveNode // by name
	dirtyNodes []*LiveNode
	nodeRes    map[string]int
	classes    map[string]int
	sizes      []int64 // distinct GPU memory sizes, ascending
	sizeCount  map[int64]int
	layout     uint64 // changes with the set of nodes
	reindex    bool

	queues     map[string]*Queue
	tree       QueueTree
	queueIndex map[string]int
	treeIndex  map[string]int
	treeModels bool // some queue has an amount for a GPU model
	unqueued   []amount.Amount
	nodeTotal  []amount.Amount
	replant    bool
	// chargeEpoch changes whenever pods may cost something else.
	chargeEpoch uint64

	topologies map[string]*Topology
	labelEpoch uint64

	workloads  map[string]*LiveWorkload
	dirtyWork  []*LiveWorkload
	sets       [numSets][]*LiveWorkload
	pods       map[string]*LivePod
	shapes     map[string]*Shape
	shapeSeq   int
	shapesKept int
	terms      []affinityTerm
	termIndex  map[string]int
	rematch    bool
	budgets    []DisruptionBudget
	budgetsOf  map[string][]int
	pace       Pace
	journal    []entry
	touchLog   []int32
	touchBase  uint64
	// Scratch belongs to package topology, Packer to package place.
	Scratch, Packer any
	mixEpoch        uint64
}

// NewCluster returns an empty cluster.
func NewCluster(s Settings) *Cluster {
	return &Cluster{
		settings: s, nodes: map[string]*LiveNode{}, classes: map[string]int{}, sizeCount: map[int64]int{},
		nodeRes: map[string]int{ResourceCPU: NodeCPU, ResourceMemory: NodeMemory, ResourcePods: NodePods},
		queues:  map[string]*Queue{}, topologies: map[string]*Topology{}, workloads: map[string]*LiveWorkload{},
		pods: map[string]*LivePod{}, shapes: map[string]*Shape{}, termIndex: map[string]int{}, replant: true,
		layout: 1, chargeEpoch: 1,
	}
}

// SetNow sets the clock reading that decisions use, in nanoseconds.
func (c *Cluster) SetNow(ns int64) { c.now = ns }

// Now returns the clock reading.
func (c *Cluster) Now() int64 { return c.now }

// SetSettings replaces the settings.
func (c *Cluster) SetSettings(s Settings) {
	c.settings = s
	c.layout++ // scores depend on them
}

// Settings returns the settings.
func (c *Cluster) Settings() Settings { return c.settings }

// SetNode adds a node or replaces it.
func (c *Cluster) SetNode(n Node) error {
	if err := checkNode(&n); err != nil {
		return err
	}
	n.GPUs = slices.Clone(n.GPUs)
	slices.SortFunc(n.GPUs, func(a, b GPU) int { return compareStrings(a.ID, b.ID) })
	live := c.nodeFor(n.Name)
	if live.Spec == nil {
		c.reindex = true
	}
	live.Spec = &n
	live.Static++
	c.labelEpoch++
	c.touchNode(live, true)
	return nil
}

// RemoveNode forgets a node; pods on it stay known.
func (c *Cluster) RemoveNode(name string) {
	live, ok := c.nodes[name]
	if !ok || live.Spec == nil {
		return
	}
	live.Spec = nil
	c.reindex = true
	c.labelEpoch++
	c.touchNode(live, true)
}

// nodeFor finds or makes the entry of a node, whose Spec is nil while only
// pods have named it.
func (c *Cluster) nodeFor(name string) *LiveNode {
	n, ok := c.nodes[name]
	if !ok {
		n = &LiveNode{Index: -1}
		c.nodes[name] = n
	}
	return n
}

// touchNode notes that a node's accounts are out of date, with pods also that
// its pods may cost their queues something else.
func (c *Cluster) touchNode(n *LiveNode, pods bool) {
	if !n.dirty {
		n.dirty = true
		c.dirtyNodes = append(c.dirtyNodes, n)
	}
	if pods {
		for _, p := range n.Pods {
			c.touchWork(p.Workload)
		}
	}
}

func (c *Cluster) touchWork(w *LiveWorkload) {
	if !w.dirty {
		w.dirty = true
		c.dirtyWork = append(c.dirtyWork, w)
	}
}

// Node returns a node as it was set.
func (c *Cluster) Node(name string) (Node, bool) {
	if n, ok := c.nodes[name]; ok && n.Spec != nil {
		return *n.Spec, true
	}
	return Node{}, false
}

// Nodes calls f for every node in name order until f returns false.
func (c *Cluster) Nodes(f func(Node) bool) {
	for _, name := range sortedKeys(c.nodes) {
		if n := c.nodes[name]; n.Spec != nil && !f(*n.Spec) {
			return
		}
	}
}

// SetQueue adds a queue or replaces it.
func (c *Cluster) SetQueue(q Queue) error {
	if err := checkQueue(&q); err != nil {
		return err
	}
	c.queues[q.Name] = &q
	c.replant = true
	return nil
}

// RemoveQueue forgets a queue.
func (c *Cluster) RemoveQueue(name string) {
	if _, ok := c.queues[name]; ok {
		delete(c.queues, name)
		c.replant = true
	}
}

// Queue returns a queue as it was set.
func (c *Cluster) Queue(name string) (Queue, bool) {
	if q, ok := c.queues[name]; ok {
		return *q, true
	}
	return Queue{}, false
}

// Queues calls f for every queue in name order until f returns false.
func (c *Cluster) Queues(f func(Queue) bool) {
	for _, name := range sortedKeys(c.queues) {
		if !f(*c.queues[name]) {
			return
		}
	}
}

// SetTopology adds a topology or replaces it.
func (c *Cluster) SetTopology(t Topology) error {
	if err := checkTopology(&t); err != nil {
		return err
	}
	c.topologies[t.Name] = &t
	c.labelEpoch++
	return nil
}

// RemoveTopology forgets a topology.
func (c *Cluster) RemoveTopology(name string) {
	delete(c.topologies, name)
	c.labelEpoch++
}

// Topology returns a topology as it was set.
func (c *Cluster) Topology(name string) (Topology, bool) {
	if t, ok := c.topologies[name]; ok {
		return *t, true
	}
	return Topology{}, false
}

// LabelEpoch changes whenever node labels or topologies may have changed.
func (c *Cluster) LabelEpoch() uint64 { return c.labelEpoch }

// SetBudgets replaces all disruption budgets.
func (c *Cluster) SetBudgets(b []DisruptionBudget) {
	c.budgets = slices.Clone(b)
	slices.SortFunc(c.budgets, func(a, b DisruptionBudget) int { return compareStrings(a.Key, b.Key) })
	c.budgetsOf = map[string][]int{}
	for i := range c.budgets {
		for _, uid := range c.budgets[i].Pods {
			c.budgetsOf[uid] = append(c.budgetsOf[uid], i)
		}
	}
}

// Budgets returns the disruption budgets by key.
func (c *Cluster) Budgets() []DisruptionBudget { return c.budgets }

// BudgetsOf returns the indices in Budgets of those that cover a pod.
func (c *Cluster) BudgetsOf(uid string) []int { return c.budgetsOf[uid] }

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
