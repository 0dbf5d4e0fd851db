// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

// Cluster is everything that a decision is made on. It is kept up to date by
// Set and Remove calls, whose order does not matter, and is not safe for
// concurrent use.
type Cluster struct {
	settings Settings
	now      int64
}

// NewCluster returns an empty cluster.
func NewCluster(s Settings) *Cluster { return &Cluster{settings: s} }

// SetNow sets the clock reading that decisions use, in nanoseconds.
func (c *Cluster) SetNow(ns int64) { c.now = ns }

// Now returns the clock reading.
func (c *Cluster) Now() int64 { return c.now }

// SetSettings replaces the settings.
func (c *Cluster) SetSettings(s Settings) { c.settings = s }

// Settings returns the settings.
func (c *Cluster) Settings() Settings { return c.settings }

// SetNode adds a node or replaces it.
func (c *Cluster) SetNode(n Node) error { return nil }

// RemoveNode forgets a node; pods on it stay known.
func (c *Cluster) RemoveNode(name string) {}

// Node returns a node as it was set.
func (c *Cluster) Node(name string) (Node, bool) { return Node{}, false }

// Nodes calls f for every node in name order until f returns false.
func (c *Cluster) Nodes(f func(Node) bool) {}

// SetQueue adds a queue or replaces it.
func (c *Cluster) SetQueue(q Queue) error { return nil }

// RemoveQueue forgets a queue.
func (c *Cluster) RemoveQueue(name string) {}

// Queue returns a queue as it was set.
func (c *Cluster) Queue(name string) (Queue, bool) { return Queue{}, false }

// Queues calls f for every queue in name order until f returns false.
func (c *Cluster) Queues(f func(Queue) bool) {}

// SetTopology adds a topology or replaces it.
func (c *Cluster) SetTopology(t Topology) error { return nil }

// RemoveTopology forgets a topology.
func (c *Cluster) RemoveTopology(name string) {}

// SetWorkload adds a workload or replaces it; its pods may be known already.
func (c *Cluster) SetWorkload(w Workload) error { return nil }

// RemoveWorkload forgets a workload; pods of it stay known and take up room.
func (c *Cluster) RemoveWorkload(key string) {}

// Workload returns a workload as it was set.
func (c *Cluster) Workload(key string) (Workload, bool) { return Workload{}, false }

// Workloads calls f for every workload in key order until f returns false.
func (c *Cluster) Workloads(f func(Workload) bool) {}

// SetPod adds a pod or replaces the one with the same UID.
func (c *Cluster) SetPod(p Pod) error { return nil }

// RemovePod forgets a pod and frees what it holds.
func (c *Cluster) RemovePod(uid string) {}

// Pod returns a pod as it was set.
func (c *Cluster) Pod(uid string) (Pod, bool) { return Pod{}, false }

// Pods calls f for every pod in UID order until f returns false.
func (c *Cluster) Pods(f func(Pod) bool) {}

// PodsOf calls f for the pods of a workload in UID order until f returns
// false.
func (c *Cluster) PodsOf(workload string, f func(Pod) bool) {}

// SetBudgets replaces all disruption budgets.
func (c *Cluster) SetBudgets(b []DisruptionBudget) {}

// Tree returns the queue accounts. The caller may read it until the next call
// of any method of c.
func (c *Cluster) Tree() *QueueTree { return &QueueTree{} }
