// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"slices"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/model"
)

// encodeAssignment writes what each container gets of the GPUs that the pod
// holds on node. identified is false for a node whose GPUs have no UUID that
// we know.
func encodeAssignment(f *podFacts, node string, held []model.HeldGPU, identified bool) (string, error) {
	if len(f.pod.Claims) == 0 {
		return "", nil
	}
	byClaim := make([][]model.HeldGPU, len(f.pod.Claims))
	for i, claim := range f.pod.Claims {
		for _, h := range held {
			if h.Claim == claim.Name {
				byClaim[i] = append(byClaim[i], h)
			}
		}
		if len(byClaim[i]) != claim.Count {
			return "", fmt.Errorf("container %s of pod %s was given %d GPUs on node %s, must be %d",
				claim.Name, f.ref, len(byClaim[i]), node, claim.Count)
		}
	}
	a := v1alpha1.Assignment{PodUID: f.ref.UID, Node: node}
	for _, p := range f.parts {
		c := v1alpha1.ContainerAssignment{Name: p.container, Resource: p.resource}
		whole := claimPer(f.pod.Claims[p.claim])
		for _, position := range p.positions {
			c.GPUs = append(c.GPUs, assignedGPU(byClaim[p.claim][position], p.per, whole, identified))
		}
		a.Containers = append(a.Containers, c)
	}
	return a.Encode()
}

// assignedGPU is the part per of whole that a container gets of a held GPU.
func assignedGPU(h model.HeldGPU, per, whole int64, identified bool) v1alpha1.AssignedGPU {
	g := v1alpha1.AssignedGPU{Units: per, MilliGPU: h.Milli * per / whole, MemoryMiB: h.MemoryMiB * per / whole}
	if identified {
		g.UUID = h.GPU
	}
	return g
}

// decodeAssignment reads which GPUs a bound pod holds. Nil without an error
// means that the GPUs are not identified: the kubelet alone knows them.
func decodeAssignment(f *podFacts) ([]model.HeldGPU, error) {
	a, err := v1alpha1.DecodeAssignment(f.assignment)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", f.ref, err)
	}
	if a.PodUID != f.ref.UID || a.Node != f.node {
		return nil, fmt.Errorf("pod %s: annotation %s is that of UID %s on node %s, must be of UID %s on node %s",
			f.ref, v1alpha1.AnnotationGPUAssignment, a.PodUID, a.Node, f.ref.UID, f.node)
	}
	given := make(map[string]v1alpha1.ContainerAssignment, len(a.Containers))
	for _, c := range a.Containers {
		// A container may hold MIG instances beside; those are counted by request.
		asked := slices.ContainsFunc(f.parts, func(p part) bool { return p.container == c.Name && p.resource == c.Resource })
		if _, set := given[c.Name]; !set || asked {
			given[c.Name] = c
		}
	}
	tallies := make([]tally, len(f.pod.Claims))
	for _, p := range f.parts {
		c, ok := given[p.container]
		if !ok || c.Resource != p.resource || len(c.GPUs) != len(p.positions) {
			return nil, fmt.Errorf("pod %s: annotation %s gives container %s %d GPUs as %q, must be %d as %q",
				f.ref, v1alpha1.AnnotationGPUAssignment, p.container, len(c.GPUs), c.Resource, len(p.positions), p.resource)
		}
		for _, g := range c.GPUs {
			if g.Units != p.per || g.MemoryMiB > maxMemoryGiB*mibPerGiB {
				return nil, fmt.Errorf("pod %s: annotation %s gives container %s %d units and %d MiB of a GPU, must be %d units and at most %d MiB",
					f.ref, v1alpha1.AnnotationGPUAssignment, p.container, g.Units, g.MemoryMiB, p.per, maxMemoryGiB*mibPerGiB)
			}
		}
		tallies[p.claim].add(p, c.GPUs)
	}
	var held []model.HeldGPU
	for i := range tallies {
		gpus, ok := tallies[i].held(f.pod.Claims[i])
		if !ok {
			return nil, nil
		}
		held = append(held, gpus...)
	}
	return held, nil
}

// tally adds up what the containers of one claim hold of each GPU.
type tally struct {
	order   []string // UUIDs by first use
	passing map[string]v1alpha1.AssignedGPU
	staying map[string]v1alpha1.AssignedGPU
	unknown bool
}

func (t *tally) add(p part, gpus []v1alpha1.AssignedGPU) {
	if t.passing == nil {
		t.passing, t.staying = map[string]v1alpha1.AssignedGPU{}, map[string]v1alpha1.AssignedGPU{}
	}
	for _, g := range gpus {
		if g.UUID == "" {
			t.unknown = true
			continue
		}
		if _, seen := t.passing[g.UUID]; !seen {
			if _, seen := t.staying[g.UUID]; !seen {
				t.order = append(t.order, g.UUID)
			}
		}
		if p.passing {
			if old := t.passing[g.UUID]; g.Units > old.Units {
				t.passing[g.UUID] = g
			}
			continue
		}
		sum := t.staying[g.UUID]
		sum.Units += g.Units
		sum.MilliGPU += g.MilliGPU
		sum.MemoryMiB += g.MemoryMiB
		t.staying[g.UUID] = sum
	}
}

// held is what the claim takes of each GPU: the larger of what passing
// containers and staying ones use, and never less than the claim where the
// kubelet kept all its containers together.
func (t *tally) held(claim model.GPUClaim) ([]model.HeldGPU, bool) {
	if t.unknown {
		return nil, false
	}
	whole := claimPer(claim)
	out := make([]model.HeldGPU, 0, len(t.order))
	for _, uuid := range t.order {
		g := t.staying[uuid]
		if passing := t.passing[uuid]; passing.Units > g.Units {
			g = passing
		}
		h := model.HeldGPU{Claim: claim.Name, GPU: uuid, Milli: g.MilliGPU, MemoryMiB: g.MemoryMiB}
		switch {
		case claim.Kind == model.WholeGPU:
			h.Milli = milliPerGPU
		case len(t.order) == claim.Count && g.Units != whole:
			h.Milli, h.MemoryMiB = g.MilliGPU*whole/g.Units, g.MemoryMiB*whole/g.Units
		}
		h.Milli = min(h.Milli, milliPerGPU)
		out = append(out, h)
	}
	return out, true
}
