// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"github.com/fairslice/fairslice/core/amount"
)

// nodeResource is the index of a resource in node vectors.
func (c *Cluster) nodeResource(name string) int {
	i, ok := c.nodeRes[name]
	if !ok {
		i = len(c.nodeRes)
		c.nodeRes[name] = i
		for _, n := range c.nodes {
			if n.Cap != nil {
				n.Cap, n.Held, n.Booked = append(n.Cap, 0), append(n.Held, 0), append(n.Booked, 0)
			}
		}
	}
	return i
}

// NodeResources is the length of node vectors.
func (c *Cluster) NodeResources() int { return len(c.nodeRes) }

// NodeResourceName is the name behind an index of node vectors.
func (c *Cluster) NodeResourceName(i int) string {
	for name, at := range c.nodeRes {
		if at == i {
			return name
		}
	}
	return ""
}

// gpuClass numbers the distinct sets of GPUs that nodes have.
func (c *Cluster) gpuClass(n *LiveNode) int {
	key := make([]byte, 0, 32*len(n.GPUs))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		key = append(key, g.Model...)
		for m := uint64(g.MemoryMiB); ; m >>= 8 {
			key = append(key, byte(m))
			if m < 256 {
				break
			}
		}
		key = append(key, 0)
	}
	class, ok := c.classes[string(key)]
	if !ok {
		class = len(c.classes)
		c.classes[string(key)] = class
	}
	return class
}

// NodeList returns the nodes by name. The caller does not change it.
func (c *Cluster) NodeList() []*LiveNode { return c.nodeList }

// NodeNamed finds a known node.
func (c *Cluster) NodeNamed(name string) *LiveNode {
	if n, ok := c.nodes[name]; ok && n.Spec != nil {
		return n
	}
	return nil
}

// PodByUID finds a pod.
func (c *Cluster) PodByUID(uid string) *LivePod { return c.pods[uid] }

// WorkloadByKey finds a workload that was set.
func (c *Cluster) WorkloadByKey(key string) *LiveWorkload {
	if w, ok := c.workloads[key]; ok && w.Spec != nil {
		return w
	}
	return nil
}

// takeNode adds (sign 1) or removes (sign -1) what a pod takes of a node.
func (c *Cluster) takeNode(n *LiveNode, p *LivePod, at Place, sign int64) {
	holds := at.Phase == Started || at.Phase == Leaving || at.Phase == Jammed
	books := at.Phase != Leaving
	for _, need := range p.Shape.Needs {
		if holds {
			n.Held[need.Resource] += sign * need.Amount
		}
		if books {
			n.Booked[need.Resource] += sign * need.Amount
		}
	}
	for _, h := range at.Held {
		g := &n.GPUs[h.GPU]
		n.countFree(g, -1)
		if holds {
			g.Held.add(h, sign)
		}
		if books {
			g.Booked.add(h, sign)
		}
		n.countFree(g, 1)
	}
	if len(p.Matches) > 0 || len(p.Shape.Affinities) > 0 {
		c.countAffinity(n, p, holds, books, int(sign))
	}
}

func (u *Use) add(h GPUHold, sign int64) {
	u.Milli += sign * h.Milli
	u.MiB += sign * h.MiB
	u.Pods += int32(sign)
}

func (n *LiveNode) countFree(g *LiveGPU, by int) {
	if !g.Healthy || g.Booked.Pods != 0 {
		return
	}
	n.WholeFree += by
	if g.Held.Pods == 0 {
		n.WholeFreeNow += by
	}
}

func (n *LiveNode) recountFree() {
	n.WholeFree, n.WholeFreeNow = 0, 0
	for i := range n.GPUs {
		n.countFree(&n.GPUs[i], 1)
	}
}

// givenHolds turns what a pod is said to hold into indices. GPUs that the
// node no longer has are left out.
func (c *Cluster) givenHolds(n *LiveNode, p *LivePod) []GPUHold {
	var holds []GPUHold
	for _, h := range p.Spec.Held {
		gpu := slices.IndexFunc(n.GPUs, func(g LiveGPU) bool { return g.ID == h.GPU })
		if gpu < 0 {
			continue
		}
		claim := slices.IndexFunc(p.Spec.Claims, func(cl GPUClaim) bool { return cl.Name == h.Claim })
		holds = append(holds, GPUHold{GPU: int32(gpu), Claim: int32(claim), Milli: h.Milli, MiB: h.MemoryMiB})
	}
	return holds
}

// autoHolds books GPUs for a pod that is known to run on a node, but not on
// which GPUs: the lowest IDs with room, or the least used when there is none.
func autoHolds(n *LiveNode, claims []GPUClaim) []GPUHold {
	var holds []GPUHold
	for ci, cl := range claims {
		used := make([]bool, len(n.GPUs))
		for range min(cl.Count, len(n.GPUs)) {
			at := lowestWithRoom(n, cl, used, holds)
			used[at] = true
			milli, mib := ClaimOn(cl, &n.GPUs[at])
			holds = append(holds, GPUHold{GPU: int32(at), Claim: int32(ci), Milli: milli, MiB: mib})
		}
	}
	return holds
}

func lowestWithRoom(n *LiveNode, cl GPUClaim, used []bool, own []GPUHold) int {
	best, bestMilli := -1, int64(0)
	for i := range n.GPUs {
		if used[i] {
			continue
		}
		g := &n.GPUs[i]
		milli, mib := ClaimOn(cl, g)
		have, haveMiB := max(g.Booked.Milli, g.Held.Milli), max(g.Booked.MiB, g.Held.MiB)
		for _, h := range own {
			if int(h.GPU) == i {
				have, haveMiB = have+h.Milli, haveMiB+h.MiB
			}
		}
		if have+milli <= 1000 && haveMiB+mib <= max(g.MemoryMiB, mib) {
			return i
		}
		if best < 0 || have < bestMilli {
			best, bestMilli = i, have
		}
	}
	return best
}

// ClaimOn is what one GPU of a claim takes of a GPU, in thousandths and MiB.
func ClaimOn(cl GPUClaim, g *LiveGPU) (milli, mib int64) {
	switch cl.Kind {
	case WholeGPU:
		return 1000, g.MemoryMiB
	case GPUSlice:
		return cl.Milli, MemoryOfMilli(cl.Milli, g.MemoryMiB)
	default:
		return MilliOfMemory(cl.MemoryMiB, g.MemoryMiB), cl.MemoryMiB
	}
}

// chargeQueues adds (or takes) what an active pod costs its queues.
func (c *Cluster) chargeQueues(p *LivePod, sign int) {
	w := p.Workload
	for q := w.Queue; q != NoQueue; q = c.tree.Queues[q].Parent {
		n := &c.tree.Queues[q]
		if sign > 0 {
			amount.AddTo(n.Allocated, p.Charge)
			if !w.cost.preemptible {
				amount.AddTo(n.AllocatedNonPreemptible, p.Charge)
			}
			continue
		}
		amount.SubFrom(n.Allocated, p.Charge)
		if !w.cost.preemptible {
			amount.SubFrom(n.AllocatedNonPreemptible, p.Charge)
		}
	}
}

// FreeMilli is what all usable nodes have free of GPUs, in thousandths, once
// all that is being released is gone; MIG instances as they are charged.
func (c *Cluster) FreeMilli() (free int64) {
	mig := make([]int64, len(c.nodeRes))
	for name, i := range c.nodeRes {
		mig[i] = c.migMilli(name)
	}
	for _, n := range c.nodeList {
		if !n.Usable {
			continue
		}
		for i := range n.GPUs {
			if g := &n.GPUs[i]; g.Healthy {
				free += max(0, 1000-g.Booked.Milli)
			}
		}
		for r, milli := range mig {
			free += milli * max(0, n.Cap[r]-n.Booked[r])
		}
	}
	return free
}
