// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/fairslice/fairslice/api/v1alpha1"
)

// SetNode takes in a node as the API server has it.
func (l *Ledger) SetNode(n *corev1.Node) {
	facts := l.config.nodeFactsOf(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.nodes[n.Name]; ok && reflect.DeepEqual(old, facts) {
		return // heartbeats
	}
	l.nodes[n.Name] = facts
	message := facts.trouble
	if err := l.cluster.SetNode(facts.node); err != nil && message == "" {
		message = err.Error()
	}
	l.trouble("Node", "", n.Name, message)
	l.forgive(n.Name)
	l.note()
}

// forgive lets pods onto a node that kube-scheduler refused for them: it has
// changed since, and what was short may be there now.
func (l *Ledger) forgive(node string) {
	for _, e := range byUID(l.index.timed) {
		if x, refused := e.excluded[node]; refused && x.until > 0 {
			x.until = 0 // tick drops it, and the count with it
			e.excluded[node] = x
		}
	}
}

// RemoveNode takes in that a node is gone. Its pods stay until they are gone
// themselves.
func (l *Ledger) RemoveNode(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.nodes[name]; !ok {
		return
	}
	delete(l.nodes, name)
	l.trouble("Node", "", name, "")
	l.cluster.RemoveNode(name)
	l.note()
}

// SetQueue takes in a queue as the API server has it.
func (l *Ledger) SetQueue(q *v1alpha1.Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.queues[q.Name]
	l.queues[q.Name] = q
	if ok && old.UID == q.UID && reflect.DeepEqual(old.Spec, q.Spec) {
		return // our own status
	}
	l.feedQueues(q.Name)
	l.note()
}

// RemoveQueue takes in that a queue is gone. Its pods keep running.
func (l *Ledger) RemoveQueue(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.queues[name]; !ok {
		return
	}
	delete(l.queues, name)
	l.trouble("Queue", "", name, "")
	l.cluster.RemoveQueue(name)
	l.feedQueues()
	l.note()
}

// feedQueues translates the named queues, or all of them if the resources that
// are divided at all have changed.
func (l *Ledger) feedQueues(names ...string) {
	divided := map[string]bool{}
	for _, q := range l.queues {
		l.config.dividedBy(q, divided)
	}
	if !maps.Equal(divided, l.divided) {
		l.divided = divided
		names = slices.Sorted(maps.Keys(l.queues))
	}
	for _, name := range names {
		message := ""
		queue := l.config.queueOf(l.queues[name], divided)
		queue.Usage = l.usage.parts[name]
		if err := l.cluster.SetQueue(queue); err != nil {
			message = err.Error()
		}
		l.trouble("Queue", "", name, message)
	}
}

// SetPodGroup takes in a PodGroup as the API server has it.
func (l *Ledger) SetPodGroup(g *v1alpha1.PodGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.setShown(g) {
		l.dropGroup(g.Namespace, g.Name) // if its mark was missing until now
		return
	}
	w := l.workload(groupKey(g.Namespace, g.Name), true)
	old := w.group
	if old == nil {
		l.dropShown(g.Namespace, g.Name) // if it lost its mark
	}
	w.group = g
	if old != nil && old.UID == g.UID && reflect.DeepEqual(old.Spec, g.Spec) {
		return // our own status
	}
	l.dirty[w.key] = true
	if old == nil {
		l.refeedAll(w)
	}
	l.note()
}

// RemovePodGroup takes in that a PodGroup is gone. Its pods that run keep
// running, those that wait keep waiting.
func (l *Ledger) RemovePodGroup(namespace, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropShown(namespace, name)
	l.dropGroup(namespace, name)
}

func (l *Ledger) dropGroup(namespace, name string) {
	w := l.workloads[groupKey(namespace, name)]
	if w == nil || w.group == nil {
		return
	}
	w.group = nil
	l.trouble("PodGroup", namespace, name, "")
	l.dirty[w.key] = true
	for _, e := range w.sorted() {
		if e.state == statePromised {
			l.enter(e, stateWaiting, "", nil) // it was promised with its gang
		}
	}
	l.refeedAll(w)
	l.note()
}

func (l *Ledger) refeedAll(w *workload) {
	for _, e := range w.sorted() {
		l.refeed(e)
	}
}

// SetTopology takes in a topology as the API server has it.
func (l *Ledger) SetTopology(t *v1alpha1.Topology) {
	l.mu.Lock()
	defer l.mu.Unlock()
	message := ""
	if err := l.cluster.SetTopology(topologyOf(t)); err != nil {
		message = err.Error()
	}
	l.trouble("Topology", "", t.Name, message)
	l.note()
}

// RemoveTopology takes in that a topology is gone.
func (l *Ledger) RemoveTopology(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble("Topology", "", name, "")
	l.cluster.RemoveTopology(name)
	l.note()
}

// SetNamespace takes in which queue a namespace's pods have by default.
func (l *Ledger) SetNamespace(name string, labels map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := labels[l.config.QueueLabel]
	if queue == l.namespaces[name] {
		return
	}
	if queue == "" {
		delete(l.namespaces, name)
	} else {
		l.namespaces[name] = queue
	}
	for _, e := range byUID(l.index.namespaces[name]) {
		l.join(e)
		l.refeed(e)
	}
	l.note()
}

// RemoveNamespace takes in that a namespace is gone.
func (l *Ledger) RemoveNamespace(name string) { l.SetNamespace(name, nil) }

// SetPriorityClass takes in a priority class as the API server has it.
func (l *Ledger) SetPriorityClass(c *schedulingv1.PriorityClass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.priorities[c.Name] = c.Value
	switch {
	case c.GlobalDefault:
		l.defaultPriority, l.defaultClass = &c.Value, c.Name
	case l.defaultClass == c.Name:
		l.defaultPriority, l.defaultClass = nil, ""
	}
	l.reprioritize(c.Name)
}

// RemovePriorityClass takes in that a priority class is gone.
func (l *Ledger) RemovePriorityClass(c *schedulingv1.PriorityClass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.priorities, c.Name)
	if l.defaultClass == c.Name {
		l.defaultPriority, l.defaultClass = nil, ""
	}
	l.reprioritize(c.Name)
}

// reprioritize marks the gangs that name the class, or one that does not exist.
func (l *Ledger) reprioritize(class string) {
	for key, w := range l.workloads {
		spec := w.gangSpec()
		if spec == nil {
			continue
		}
		named := spec.PriorityClassName
		if named == "" && w.group == nil {
			named = w.derived().DefaultClass
		}
		if _, exists := l.priorities[named]; named != "" && (!exists || named == class) {
			l.dirty[key] = true
		}
	}
	l.note()
}
