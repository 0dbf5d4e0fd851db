// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/scenario"
)

// bookHeld gives the pods that hold GPUs at the start definite devices: first
// those that the scenario names, then shared devices by label, then devices of
// their own, lowest IDs first.
func (w *world) bookHeld() {
	for _, n := range w.nodes {
		b := booking{node: n, taken: map[string]bool{}, groups: map[string]string{}, milli: map[string]int64{}}
		var rest []*pod
		for _, wl := range w.workloads {
			for i, p := range wl.pods {
				if p.model.Node != n.Name || !scenario.Holds(p.state) || len(p.model.Claims) == 0 {
					continue
				}
				if i < len(wl.spec.Pods) && len(wl.spec.Pods[i].Held) > 0 {
					b.exact(p, wl.spec.Pods[i].Held)
					continue
				}
				rest = append(rest, p)
			}
		}
		b.reserveNumbered(rest)
		for _, p := range rest {
			b.claims(p)
		}
	}
}

// booking hands out the GPUs of one node.
type booking struct {
	node   *model.Node
	taken  map[string]bool
	groups map[string]string
	milli  map[string]int64
}

func (p *pod) groups() []string {
	for i := range p.workload.spec.Pods {
		if p.workload.spec.Pods[i].Name == p.model.Name {
			return p.workload.spec.Pods[i].GPUGroups
		}
	}
	return nil
}

func (b *booking) exact(p *pod, held []scenario.HeldGPU) {
	for _, h := range held {
		p.model.Held = append(p.model.Held, model.HeldGPU{Claim: cmp.Or(h.Claim, p.model.Claims[0].Name), GPU: h.GPU, Milli: h.Milli, MemoryMiB: h.MemoryMiB})
		b.taken[h.GPU] = true
		b.milli[h.GPU] += h.Milli
	}
}

// reserveNumbered lets a shared device whose label is a free GPU's ID be that
// GPU.
func (b *booking) reserveNumbered(pods []*pod) {
	for _, p := range pods {
		if p.model.Claims[0].Kind == model.WholeGPU {
			continue
		}
		for _, label := range p.groups() {
			if _, known := b.groups[label]; !known && b.has(label) && !b.taken[label] {
				b.groups[label], b.taken[label] = label, true
			}
		}
	}
}

func (b *booking) has(id string) bool {
	return slices.ContainsFunc(b.node.GPUs, func(g model.GPU) bool { return g.ID == id })
}

// claims books a pod. Where the node has too few GPUs, shares that were to have
// devices of their own sit together if that fits; a pod for which even that
// fails stays without definite devices, as on a cluster that is overcommitted.
func (b *booking) claims(p *pod) {
	labels := p.groups()
	for _, c := range p.model.Claims {
		for i := range c.Count {
			label := ""
			if c.Kind != model.WholeGPU && i < len(labels) {
				label = labels[i]
			}
			id, ok := b.device(label)
			if !ok {
				id, ok = b.roomiest(c)
			}
			if !ok {
				p.model.Held = nil
				return
			}
			h := b.hold(c, id)
			b.milli[id] += h.Milli
			p.model.Held = append(p.model.Held, h)
		}
	}
}

// roomiest is the shared device with the most room for the claim.
func (b *booking) roomiest(c model.GPUClaim) (string, bool) {
	best, found := "", false
	for _, g := range b.node.GPUs {
		used, need := b.milli[g.ID], b.hold(c, g.ID).Milli
		if c.Kind != model.WholeGPU && used+need <= 1000 && (!found || used < b.milli[best]) {
			best, found = g.ID, true
		}
	}
	return best, found
}

// device is the GPU behind a label, or a free one.
func (b *booking) device(label string) (string, bool) {
	if id, known := b.groups[label]; known && label != "" {
		return id, true
	}
	for _, g := range b.node.GPUs {
		if !b.taken[g.ID] {
			b.taken[g.ID] = true
			if label != "" {
				b.groups[label] = g.ID
			}
			return g.ID, true
		}
	}
	return "", false
}

// hold is the account of one GPU of a claim.
func (b *booking) hold(c model.GPUClaim, id string) model.HeldGPU {
	i := slices.IndexFunc(b.node.GPUs, func(g model.GPU) bool { return g.ID == id })
	memory := b.node.GPUs[i].MemoryMiB
	h := model.HeldGPU{Claim: c.Name, GPU: id, Milli: 1000, MemoryMiB: memory}
	switch c.Kind {
	case model.GPUSlice:
		h.Milli, h.MemoryMiB = c.Milli, memory*c.Milli/1000
	case model.GPUMemory:
		h.MemoryMiB = c.MemoryMiB
		if memory > 0 {
			h.Milli = min((c.MemoryMiB*1000+memory-1)/memory, 1000)
		}
	}
	return h
}

func milliNumber(milli int64) Number {
	return Number(strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64))
}
