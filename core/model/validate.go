// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"

	"github.com/fairslice/fairslice/core/amount"
)

// largest bounds a single quantity, in bytes 64 PiB: what a whole cluster has must
// pass as a quota, and a node's few pods must not sum up to more than fits.
const largest = amount.Amount(1) << 56

func checkNode(n *Node) error {
	if n.Name == "" {
		return errors.New("a node has no name")
	}
	if err := checkQuantities("node "+n.Name, "allocatable", n.Allocatable, false); err != nil {
		return err
	}
	seen := make(map[string]bool, len(n.GPUs))
	for _, g := range n.GPUs {
		switch {
		case g.ID == "":
			return fmt.Errorf("node %s: a GPU has no ID", n.Name)
		case seen[g.ID]:
			return fmt.Errorf("node %s: two GPUs have the ID %q", n.Name, g.ID)
		case g.MemoryMiB < 0 || amount.Amount(g.MemoryMiB) > largest:
			return fmt.Errorf("node %s: GPU %q has %d MiB of memory; allowed are 0 to %d", n.Name, g.ID, g.MemoryMiB, largest)
		}
		seen[g.ID] = true
	}
	switch n.MIGStrategy {
	case "", "single", "mixed":
		return nil
	}
	return fmt.Errorf("node %s: MIG strategy is %q; allowed are \"\", \"single\" and \"mixed\"", n.Name, n.MIGStrategy)
}

func checkQuantities(object, field string, q Quantities, unlimited bool) error {
	for _, name := range sortedKeys(q) {
		v := q[name]
		if name == "" {
			return fmt.Errorf("%s: %s names a resource \"\"", object, field)
		}
		if unlimited && v == amount.Unlimited {
			continue
		}
		if v < 0 || v > largest {
			return fmt.Errorf("%s: %s of %s is %d; allowed are 0 to %d", object, field, name, v, largest)
		}
	}
	return nil
}

func checkQueue(q *Queue) error {
	object := "queue " + q.Name
	switch {
	case q.Name == "":
		return errors.New("a queue has no name")
	case q.Parent == q.Name:
		return fmt.Errorf("%s: it is its own parent", object)
	}
	if err := checkQuantities(object, "quota", q.Quota, true); err != nil {
		return err
	}
	if err := checkQuantities(object, "limit", q.Limit, true); err != nil {
		return err
	}
	if err := checkQuantities(object, "overQuotaWeight", q.OverQuotaWeight, false); err != nil {
		return err
	}
	return checkQuantities(object, "usage", q.Usage, false)
}

func checkTopology(t *Topology) error {
	if t.Name == "" {
		return errors.New("a topology has no name")
	}
	if len(t.Levels) == 0 || len(t.Levels) > 16 {
		return fmt.Errorf("topology %s: it has %d levels; allowed are 1 to 16", t.Name, len(t.Levels))
	}
	seen := map[string]bool{}
	for _, l := range t.Levels {
		if l == "" || seen[l] {
			return fmt.Errorf("topology %s: level %q is empty or named twice", t.Name, l)
		}
		seen[l] = true
	}
	return nil
}

func checkWorkload(w *Workload) error {
	if w.Key == "" {
		return errors.New("a workload has no key")
	}
	if w.MinMember < 0 {
		return fmt.Errorf("workload %s: minMember is %d; allowed are 0 and more", w.Key, w.MinMember)
	}
	if w.Finished < 0 {
		return fmt.Errorf("workload %s: %d members are finished; allowed are 0 and more", w.Key, w.Finished)
	}
	parents := make(map[string]string, len(w.SubGroups))
	for _, s := range w.SubGroups {
		switch _, twice := parents[s.Name]; {
		case s.Name == "":
			return fmt.Errorf("workload %s: a sub-group has no name", w.Key)
		case twice:
			return fmt.Errorf("workload %s: two sub-groups are named %q", w.Key, s.Name)
		case s.MinMember < 0:
			return fmt.Errorf("workload %s: minMember of sub-group %q is %d; allowed are 0 and more", w.Key, s.Name, s.MinMember)
		}
		parents[s.Name] = s.Parent
	}
	for _, s := range w.SubGroups {
		at := s.Name
		for steps := 0; at != ""; steps++ {
			parent, ok := parents[at]
			if !ok {
				return fmt.Errorf("workload %s: sub-group %q has parent %q, which does not exist", w.Key, s.Name, at)
			}
			if steps > len(parents) {
				return fmt.Errorf("workload %s: sub-group %q is its own ancestor", w.Key, s.Name)
			}
			at = parent
		}
	}
	return nil
}

func checkPod(p *Pod) error {
	object := "pod " + p.Name
	switch {
	case p.UID == "":
		return fmt.Errorf("%s has no UID", object)
	case p.State.HoldsRoom() && p.Node == "":
		return fmt.Errorf("%s: it holds room and names no node", object)
	case p.State < Pending || p.State > Failed:
		return fmt.Errorf("%s: its state is %d; allowed are %d to %d", object, p.State, Pending, Failed)
	}
	if err := checkQuantities(object, "request", p.Request, false); err != nil {
		return err
	}
	if _, gpu := p.Request[ResourceGPU]; gpu {
		return fmt.Errorf("%s: its request names %q; GPUs are asked for by claims", object, ResourceGPU)
	}
	seen := make(map[string]bool, len(p.Claims))
	for _, cl := range p.Claims {
		if seen[cl.Name] {
			return fmt.Errorf("%s: two GPU claims are named %q", object, cl.Name)
		}
		seen[cl.Name] = true
		if err := checkClaim(object, cl); err != nil {
			return err
		}
	}
	for _, h := range p.Held {
		if h.Milli < 0 || h.Milli > 1000 || h.MemoryMiB < 0 || amount.Amount(h.MemoryMiB) > largest {
			return fmt.Errorf("%s: it holds %d thousandths and %d MiB of GPU %q; allowed are 0 to 1000 and 0 to %d", object, h.Milli, h.MemoryMiB, h.GPU, largest)
		}
	}
	return nil
}

// maxGPUs bounds the GPUs of one claim, far above what any machine has.
const maxGPUs = 1024

func checkClaim(object string, cl GPUClaim) error {
	switch {
	case cl.Count < 1 || cl.Count > maxGPUs:
		return fmt.Errorf("%s: GPU claim %q asks for %d GPUs; allowed are 1 to %d", object, cl.Name, cl.Count, maxGPUs)
	case cl.Kind == GPUSlice && (cl.Milli < 1 || cl.Milli > 1000):
		return fmt.Errorf("%s: GPU claim %q asks for %d thousandths of a GPU; allowed are 1 to 1000", object, cl.Name, cl.Milli)
	case cl.Kind == GPUMemory && (cl.MemoryMiB < 1 || amount.Amount(cl.MemoryMiB) > largest):
		return fmt.Errorf("%s: GPU claim %q asks for %d MiB of a GPU; allowed are 1 to %d", object, cl.Name, cl.MemoryMiB, largest)
	case cl.Kind < WholeGPU || cl.Kind > GPUMemory:
		return fmt.Errorf("%s: GPU claim %q is of an unknown kind", object, cl.Name)
	}
	return nil
}
