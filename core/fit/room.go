// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fit

import "github.com/fairslice/fairslice/core/model"

// Room says whether a shape fits a node by its accounts: now, or once all that
// is being released is gone. GPUs are counted, not chosen. Shared says whether
// a share of the shape fits a GPU that others use in part already.
func Room(s *model.Shape, n *model.LiveNode) (now, later, shared bool) {
	now = true
	for _, need := range s.Needs {
		free := n.Cap[need.Resource] - n.Booked[need.Resource]
		if need.Amount > free {
			return false, false, false
		}
		now = now && need.Amount <= n.Cap[need.Resource]-n.Held[need.Resource]
	}
	if len(s.Claims) == 0 {
		return now, true, false
	}
	gpuNow, gpuLater, shared := gpuRoom(s, n)
	return now && gpuNow, gpuLater, shared
}

func gpuRoom(s *model.Shape, n *model.LiveNode) (now, later, shared bool) {
	if len(s.Claims) == 1 {
		cl := &s.Claims[0]
		if cl.Kind == model.WholeGPU {
			return n.WholeFreeNow >= cl.Count, n.WholeFree >= cl.Count, false
		}
		return shareRoom(cl, n)
	}
	var ch chooser
	now = ch.choose(s, n, viewNow, model.Pack)
	later = now || ch.choose(s, n, viewLater, model.Pack)
	return now, later, later && s.Shared && ch.joins(n)
}

// shareRoom counts the GPUs that a single share claim fits on.
func shareRoom(cl *model.GPUClaim, n *model.LiveNode) (now, later, shared bool) {
	nowCount, laterCount := 0, 0
	for i := range n.GPUs {
		g := &n.GPUs[i]
		milli, mib := model.ClaimOn(*cl, g)
		one := model.Use{Milli: milli, MiB: mib, Pods: 1}
		if !shareFits(g, g.Booked, one) {
			continue
		}
		laterCount++
		shared = shared || g.Booked.Pods > 0
		if shareFits(g, g.Held, one) {
			nowCount++
		}
	}
	return nowCount >= cl.Count, laterCount >= cl.Count, shared && laterCount >= cl.Count
}

// shareFits checks the accounts of a GPU in one view for more shares:
// thousandths, MiB and how many share it.
func shareFits(g *model.LiveGPU, u, more model.Use) bool {
	return g.Healthy && g.Shareable && g.MemoryMiB > 0 && u.Milli+more.Milli <= 1000 && u.MiB+more.MiB <= g.MemoryMiB &&
		sharersFit(g, u.Pods+more.Pods)
}

// sharersFit says whether so many claims may share a GPU.
func sharersFit(g *model.LiveGPU, sharers int32) bool {
	return g.MaxSharers == 0 || int(sharers) <= g.MaxSharers
}

// ShortOf names the first node resource, in name order, that a shape lacks on
// a node, with what is free of it later; ok is false if none is lacking.
func ShortOf(c *model.Cluster, s *model.Shape, n *model.LiveNode) (name string, free, want int64, ok bool) {
	for _, need := range s.Needs {
		f := n.Cap[need.Resource] - n.Booked[need.Resource]
		if need.Amount > f {
			r := c.NodeResourceName(need.Resource)
			if !ok || r < name {
				name, free, want, ok = r, f, need.Amount, true
			}
		}
	}
	return name, free, want, ok
}

// Count says how many pods of a shape fit a node together, up to a bound, once
// all that is being released is gone. Pods with several claims are counted by
// the thousandths that they take.
func Count(s *model.Shape, n *model.LiveNode, bound int) int {
	count := int64(bound)
	for _, need := range s.Needs {
		count = min(count, max(0, n.Cap[need.Resource]-n.Booked[need.Resource])/need.Amount)
	}
	if count == 0 || len(s.Claims) == 0 {
		return int(count)
	}
	if len(s.Claims) > 1 {
		return int(min(count, countMixed(s, n)))
	}
	cl := &s.Claims[0]
	if cl.Kind == model.WholeGPU {
		return int(min(count, int64(n.WholeFree/cl.Count)))
	}
	// A pod takes at most one place on each GPU: with k pods a GPU serves at
	// most k places.
	var places []int64
	for i := range n.GPUs {
		g := &n.GPUs[i]
		milli, mib := model.ClaimOn(*cl, g)
		if shareFits(g, g.Booked, model.Use{Milli: milli, MiB: mib, Pods: 1}) {
			p := (1000 - g.Booked.Milli) / milli
			if mib > 0 {
				p = min(p, (g.MemoryMiB-g.Booked.MiB)/mib)
			}
			if g.MaxSharers > 0 {
				p = min(p, int64(g.MaxSharers)-int64(g.Booked.Pods))
			}
			places = append(places, p)
		}
	}
	for count > 0 && served(places, count) < count*int64(cl.Count) {
		count--
	}
	return int(count)
}

func served(places []int64, pods int64) int64 {
	var sum int64
	for _, p := range places {
		sum += min(p, pods)
	}
	return sum
}

// countMixed bounds the pods of a shape with several claims from above, and
// says 0 or 1 where that is exact.
func countMixed(s *model.Shape, n *model.LiveNode) int64 {
	var ch chooser
	if !ch.choose(s, n, viewLater, model.Pack) {
		return 0
	}
	var each, free int64
	for _, h := range ch.holds {
		each += h.Milli
	}
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Healthy {
			free += max(0, 1000-g.Booked.Milli)
		}
	}
	return max(1, free/max(1, each))
}

// Again says whether a pod without a place fits a node with given GPUs: now,
// or once all that is being released is gone.
func Again(c *model.Cluster, p *model.LivePod, n *model.LiveNode, holds []model.GPUHold) (now, later bool) {
	now = true
	for _, need := range p.Shape.Needs {
		if need.Amount > n.Cap[need.Resource]-n.Booked[need.Resource] {
			return false, false
		}
		now = now && need.Amount <= n.Cap[need.Resource]-n.Held[need.Resource]
	}
	for i, h := range holds {
		var own model.Use
		for _, o := range holds[:i] {
			if o.GPU == h.GPU {
				own.Milli, own.MiB, own.Pods = own.Milli+o.Milli, own.MiB+o.MiB, own.Pods+1
			}
		}
		g := &n.GPUs[h.GPU]
		if !g.Healthy || !holdFits(g, g.Booked, own, h) {
			return false, false
		}
		now = now && holdFits(g, g.Held, own, h)
	}
	if p.HasAffinity() {
		affinityNow, affinityLater := c.AffinityAllows(p, n)
		return now && affinityNow, affinityLater
	}
	return now, true
}

// holdFits checks one GPU's account for a hold beside what the pod itself has
// there already.
func holdFits(g *model.LiveGPU, u, own model.Use, h model.GPUHold) bool {
	return u.Milli+own.Milli+h.Milli <= 1000 && (g.MemoryMiB == 0 || u.MiB+own.MiB+h.MiB <= g.MemoryMiB) &&
		sharersFit(g, u.Pods+own.Pods+1)
}
