// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Upper bounds keep a slip of the pen from becoming an hour of work.
const (
	maxNodeGPUs = 1024
	maxReplicas = 100_000
	maxRounds   = 10_000
)

var (
	placements  = []string{"", "pack", "spread"}
	strategies  = []string{"", "single", "mixed"}
	holdStates  = []string{Allocated, Pipelined, Binding, Bound, Running, Releasing}
	roundsModes = []string{ModeFull, ModeSingle}
)

// Holds reports whether a pod in the state holds room on a node.
func Holds(state string) bool { return slices.Contains(holdStates, state) }

// PodNames lists the names of a workload's pods, Replicas written out.
func (w *Workload) PodNames() []string {
	names := make([]string, 0, len(w.Pods)+w.Replicas)
	for i := range w.Pods {
		names = append(names, w.Pods[i].Name)
	}
	for i := range w.Replicas {
		names = append(names, fmt.Sprintf("%s-%d", w.Name, i))
	}
	return names
}

// names finds what comes twice or has no name.
type names map[string]bool

func (n names) add(path, name string) error {
	if name == "" {
		return at(path, errors.New("name is missing"))
	}
	if n[name] {
		return at(path, fmt.Errorf("name %s comes twice", name))
	}
	n[name] = true
	return nil
}

func oneOf(path, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	words := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	return at(path, fmt.Errorf("is %q; allowed: %s", value, strings.Join(words, ", ")))
}

func within[T int | int64](path string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return at(path, fmt.Errorf("is %d; allowed: %d to %d", value, low, high))
}

// check finds what the types alone cannot: contradictions and references to
// nothing. References that a cluster can really have dangling (a workload's
// queue, its topology, an affinity) are left for the run to explain.
func (s *Scenario) check() error {
	nodes, queues, pods, workloads := names{}, names{}, names{}, names{}
	for i := range s.Nodes {
		path := fmt.Sprintf("nodes[%d]", i)
		if err := errors.Join(nodes.add(path, s.Nodes[i].Name), s.Nodes[i].check(path)); err != nil {
			return first(err)
		}
	}
	for i := range s.Queues {
		path := fmt.Sprintf("queues[%d]", i)
		if err := errors.Join(queues.add(path, s.Queues[i].Name), s.Queues[i].check(path)); err != nil {
			return first(err)
		}
	}
	for i := range s.Workloads {
		path := fmt.Sprintf("workloads[%d]", i)
		if err := s.Workloads[i].check(path, workloads, pods, nodes); err != nil {
			return first(err)
		}
	}
	return first(errors.Join(
		s.checkTree(queues),
		s.checkTopologies(),
		s.checkEngine(),
		s.checkRun(workloads, pods, nodes),
		s.checkExpect(workloads, pods, nodes),
	))
}

// first keeps one sentence: what is wrong later is often its consequence.
func first(err error) error {
	var joined interface{ Unwrap() []error }
	for errors.As(err, &joined) {
		err = joined.Unwrap()[0]
	}
	return err
}

func (n *Node) check(path string) error {
	return errors.Join(
		within(path+".gpus", n.GPUs, 0, maxNodeGPUs),
		within(path+".draGpus", n.DRAGPUs, 0, maxNodeGPUs),
		within(path+".gpuDevices", n.GPUDevices, 0, maxNodeGPUs),
		oneOf(path+".migStrategy", n.MIGStrategy, strategies),
		notNegative(path+".gpuMemoryMiB", n.GPUMemoryMiB),
		notNegative(path+".cpuMilli", n.CPUMilli),
		notNegative(path+".memoryMiB", (*int64)(n.MemoryMiB)),
		notNegative(path+".maxPods", n.MaxPods),
		counts(path+".migProfiles", n.MIGProfiles),
		counts(path+".other", n.Other),
		n.checkGPUs(path),
	)
}

// checkGPUs wants the list alone, IDs that differ, and memory that can be.
func (n *Node) checkGPUs(path string) error {
	if len(n.GPUList) == 0 {
		return nil
	}
	if n.GPUs > 0 || n.DRAGPUs > 0 {
		return at(path, errors.New("gpuList and gpus, or draGpus, exclude each other"))
	}
	seen := names{}
	for i := range n.GPUList {
		g := &n.GPUList[i]
		gpuPath := fmt.Sprintf("%s.gpuList[%d]", path, i)
		if err := errors.Join(seen.add(gpuPath, g.ID), notNegative(gpuPath+".memoryMiB", &g.MemoryMiB)); err != nil {
			return err
		}
	}
	return nil
}

func notNegative[T int | int64](path string, value *T) error {
	if value == nil || *value >= 0 {
		return nil
	}
	return at(path, errors.New("is negative; allowed: at least 0"))
}

func counts(path string, values map[string]int64) error {
	for _, key := range sortedKeys(values) {
		if values[key] < 0 {
			return at(join(path, key), fmt.Errorf("is %d; allowed: at least 0", values[key]))
		}
	}
	return nil
}

func (q *Queue) check(path string) error {
	for _, name := range q.OverQuotaWeight.Names() {
		if q.OverQuotaWeight[name] == unlimited {
			return at(path+".overQuotaWeight."+name, errors.New("is -1; allowed: at least 0"))
		}
	}
	for _, key := range sortedKeys(q.Usage) {
		if u := q.Usage[key]; u < 0 || u > millionthsPerOf {
			return at(path+".usage."+key, errors.New("is out of range; allowed: 0 to 1"))
		}
	}
	if n := q.EvictionsPerMinute; n != nil {
		return within(path+".evictionsPerMinute", *n, 0, maxEvictions)
	}
	return nil
}

// maxEvictions a minute that a bound may name.
const maxEvictions = 1_000_000

// checkTree refuses parents that do not exist and queues that are their own
// ancestors.
func (s *Scenario) checkTree(queues names) error {
	parent := map[string]string{}
	for i, q := range s.Queues {
		if q.Parent != "" && !queues[q.Parent] {
			return fmt.Errorf("queues[%d].parent: queue %s names parent %s, which does not exist", i, q.Name, q.Parent)
		}
		parent[q.Name] = q.Parent
	}
	for i, q := range s.Queues {
		steps := 0
		for up := q.Parent; up != ""; up = parent[up] {
			if steps++; steps > len(s.Queues) {
				return fmt.Errorf("queues[%d].parent: queue %s is below itself", i, q.Name)
			}
		}
	}
	return nil
}

func (s *Scenario) checkTopologies() error {
	seen := names{}
	for i, t := range s.Topologies {
		path := fmt.Sprintf("topologies[%d]", i)
		if err := seen.add(path, t.Name); err != nil {
			return err
		}
		if len(t.Levels) == 0 {
			return at(path+".levels", errors.New("is empty; at least one node label is needed"))
		}
	}
	return nil
}

func (s *Scenario) checkEngine() error {
	e := s.Engine
	if e == nil {
		return nil
	}
	err := oneOf("engine.gpuSharing", e.GPUSharing, placements)
	if e.NodePlacement != nil {
		err = errors.Join(err, oneOf("engine.nodePlacement.gpu", e.NodePlacement.GPU, placements),
			oneOf("engine.nodePlacement.cpu", e.NodePlacement.CPU, placements))
	}
	return err
}
