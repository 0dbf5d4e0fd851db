// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/amount"
)

// Need is an amount of one node resource.
type Need struct {
	Resource int
	Amount   int64
}

// Shape is what pods with equal needs share, so that work done for one of
// them serves all.
type Shape struct {
	ID int
	// Needs are the node resources asked for, the pod slot included.
	Needs  []Need
	Claims []GPUClaim
	// Whole, Shared and Memory say which kinds of claims there are, MIG
	// whether MIG instances are asked for.
	Whole, Shared, Memory, MIG bool
	// GPUs is the number of GPUs that all claims together touch at most.
	GPUs         int
	NodeTerms    [][]Requirement
	Tolerations  []Toleration
	MinIsolation int
	Excluded     []string
	// Affinities are indices of the cluster's affinity terms.
	Affinities []int
	// Cache belongs to package place.
	Cache any
	// Verdict and Seen belong to package fit: per node index the verdict of
	// its predicates, the LiveNode.Static that it was made at, and the layout
	// of nodes.
	Verdict []uint8
	Seen    []uint32
	Layout  uint64

	request    Quantities
	affinities []PodAffinity
	charge     []amount.Amount
	chargeAt   uint64
	refs       int
}

// shapeOf returns the shape that a pod belongs to.
func (c *Cluster) shapeOf(p *Pod) *Shape {
	key := shapeKey(p)
	if s, ok := c.shapes[key]; ok {
		return s
	}
	s := &Shape{
		ID: c.shapeSeq, NodeTerms: p.NodeTerms, Tolerations: p.Tolerations, MinIsolation: p.MinIsolation,
		Excluded: p.ExcludedNodes, Claims: p.Claims, request: p.Request, affinities: p.Affinities,
	}
	s.Needs = append(s.Needs, Need{NodePods, 1})
	for _, name := range sortedKeys(p.Request) {
		if v := int64(p.Request[name]); v > 0 {
			s.Needs = append(s.Needs, Need{c.nodeResource(name), v})
			s.MIG = s.MIG || strings.HasPrefix(name, ResourceMIGPrefix)
		}
	}
	for _, cl := range p.Claims {
		s.Whole = s.Whole || cl.Kind == WholeGPU
		s.Shared = s.Shared || cl.Kind != WholeGPU
		s.Memory = s.Memory || cl.Kind == GPUMemory
		s.GPUs += cl.Count
	}
	for _, a := range p.Affinities {
		s.Affinities = append(s.Affinities, c.affinityTerm(a))
	}
	c.shapes[key] = s
	c.shapeSeq++
	return s
}

// Mix calls f for every shape that pods have, with their number, in an order
// that depends on the shapes alone.
func (c *Cluster) Mix(f func(s *Shape, pods int)) {
	for _, key := range sortedKeys(c.shapes) {
		if s := c.shapes[key]; s.refs > 0 {
			f(s, s.refs)
		}
	}
}

// MixEpoch changes whenever pods came, went or changed.
func (c *Cluster) MixEpoch() uint64 { return c.mixEpoch }

// shapeKey writes everything that makes pods differ for placement.
func shapeKey(p *Pod) string {
	var b strings.Builder
	for _, name := range sortedKeys(p.Request) {
		if p.Request[name] > 0 {
			fmt.Fprintf(&b, "%s=%d,", name, p.Request[name])
		}
	}
	for _, cl := range p.Claims {
		fmt.Fprintf(&b, "|%q %d %d %d %d", cl.Name, cl.Kind, cl.Count, cl.Milli, cl.MemoryMiB)
	}
	fmt.Fprintf(&b, "|%d", p.MinIsolation)
	if len(p.NodeTerms) > 0 {
		fmt.Fprintf(&b, "|t%q", p.NodeTerms)
	}
	if len(p.Tolerations) > 0 {
		for _, t := range p.Tolerations {
			fmt.Fprintf(&b, "|o%q %q %q %t", t.Key, t.Value, t.Effect, t.Exists)
		}
	}
	for _, a := range p.Affinities {
		b.WriteString("|a")
		writeAffinity(&b, a)
	}
	if len(p.ExcludedNodes) > 0 {
		x := slices.Sorted(slices.Values(p.ExcludedNodes))
		fmt.Fprintf(&b, "|x%q", x)
	}
	return b.String()
}

func writeAffinity(b *strings.Builder, a PodAffinity) {
	fmt.Fprintf(b, "%t %q ", a.Anti, a.TopologyKey)
	for _, k := range sortedKeys(a.MatchLabels) {
		fmt.Fprintf(b, "%q=%q,", k, a.MatchLabels[k])
	}
}

// Estimate is what a pod of the shape costs a queue before it has a place:
// memory claims count as if on the smallest GPU that could host them.
func (c *Cluster) Estimate(s *Shape) []amount.Amount {
	if s.chargeAt == c.chargeEpoch && s.charge != nil {
		return s.charge
	}
	v := c.chargeBase(s)
	for _, cl := range s.Claims {
		v[AtGPU] += amount.Amount(int64(cl.Count) * c.claimMilli(cl, false))
	}
	s.charge, s.chargeAt = v, c.chargeEpoch
	return v
}

// LeastCharge is the least that a pod of the shape can cost: memory claims
// count as if on the largest GPU.
func (c *Cluster) LeastCharge(s *Shape) []amount.Amount {
	if !s.Memory {
		return c.Estimate(s)
	}
	v := c.chargeBase(s)
	for _, cl := range s.Claims {
		v[AtGPU] += amount.Amount(int64(cl.Count) * c.claimMilli(cl, true))
	}
	return v
}

// chargeBase charges everything but claims.
func (c *Cluster) chargeBase(s *Shape) []amount.Amount {
	v := make([]amount.Amount, len(c.tree.Resources))
	for name, q := range s.request {
		if i, ok := c.treeIndex[name]; ok && i != AtGPU {
			v[i] = q
		}
		v[AtGPU] += amount.Amount(c.migMilli(name) * int64(q))
	}
	if i, ok := c.treeIndex[ResourcePods]; ok {
		v[i] = 1
	}
	return v
}

// claimMilli is what one GPU of a claim costs while no GPU is chosen.
func (c *Cluster) claimMilli(cl GPUClaim, largest bool) int64 {
	switch cl.Kind {
	case WholeGPU:
		return 1000
	case GPUSlice:
		return cl.Milli
	}
	sizes := c.gpuSizes()
	if len(sizes) == 0 {
		return 1000
	}
	size := sizes[len(sizes)-1]
	if !largest {
		if i, _ := slices.BinarySearch(sizes, cl.MemoryMiB); i < len(sizes) {
			size = sizes[i]
		}
	}
	return MilliOfMemory(cl.MemoryMiB, size)
}

// MilliOfMemory is the part of a GPU, in thousandths, that MiB of its memory
// stand for: rounded down, so that what fits by memory fits by compute, and at
// most all of it.
func MilliOfMemory(mib, gpuMiB int64) int64 {
	return min(max(1, mib*1000/max(1, gpuMiB)), 1000)
}

// MemoryOfMilli is the memory in MiB that goes with thousandths of a GPU.
func MemoryOfMilli(milli, gpuMiB int64) int64 { return milli * gpuMiB / 1000 }

// ChargeAt is what a pod of the shape costs on a node with the given GPUs.
func (c *Cluster) ChargeAt(s *Shape, n *LiveNode, held []GPUHold) []amount.Amount {
	if !c.ChargeVaries(s) {
		return c.Estimate(s)
	}
	v := c.chargeBase(s)
	for _, h := range held {
		v[AtGPU] += amount.Amount(h.Milli)
		if i, ok := c.treeIndex[ResourceGPUModelPrefix+n.GPUs[h.GPU].Model]; ok {
			v[i] += amount.Amount(h.Milli)
		}
	}
	return v
}

// ChargeVaries says whether a pod of the shape costs differently on different
// nodes.
func (c *Cluster) ChargeVaries(s *Shape) bool {
	return s.Memory || (c.treeModels && len(s.Claims) > 0)
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
