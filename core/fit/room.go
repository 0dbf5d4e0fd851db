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
		if !shareFits(g, g.Booked, milli, mib) {
			continue
		}
		laterCount++
		shared = shared || g.Booked.Pods > 0
		if shareFits(g, g.Held, milli, mib) {
			nowCount++
		}
	}
	return nowCount >= cl.Count, laterCount >= cl.Count, shared && laterCount >= cl.Count
}

// shareFits checks both accounts of a GPU in one view: thousandths and MiB.
func shareFits(g *model.LiveGPU, u model.Use, milli, mib int64) bool {
	return g.Healthy && g.Shareable && g.MemoryMiB > 0 && u.Milli+milli <= 1000 && u.MiB+mib <= g.MemoryMiB
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
