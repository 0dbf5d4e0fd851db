// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
)

// Policy is how a workload fills nodes and GPUs.
type Policy struct{ Nodes, GPUs model.Spreading }

// PolicyOf is the policy for a pod: its workload's own, or the cluster's.
func PolicyOf(c *model.Cluster, p *model.LivePod) Policy {
	if w := p.Workload.Spec; w != nil && w.HasSpreading {
		return Policy{w.NodeSpreading, w.GPUSpreading}
	}
	s := c.Settings()
	if wantsGPU(p.Shape) {
		return Policy{s.NodeSpreadingGPU, s.GPUSpreading}
	}
	return Policy{s.NodeSpreadingCPU, s.GPUSpreading}
}

func wantsGPU(s *model.Shape) bool { return len(s.Claims) > 0 || s.MIG }

// A key ranks a node for a shape; higher is better and 0 does not fit. From
// the top: fits, joins a shared GPU, fits now, is a CPU node for a pod that
// wants no GPU, fullness in 40 bits, and the node's place in name order.
const (
	keyFits     = 1 << 63
	keyShared   = 1 << 62
	keyNow      = 1 << 61
	keyPlain    = 1 << 60
	fullBits    = 40
	rankBits    = 20
	rankMask    = 1<<rankBits - 1
	fullestMask = 1<<fullBits - 1
)

func keyOf(c *model.Cluster, s *model.Shape, n *model.LiveNode, policy Policy) uint64 {
	now, later, shared := fit.Room(s, n)
	if !later || fit.Static(c, s, n) != fit.Allowed {
		return 0
	}
	key := uint64(keyFits)
	if now {
		key |= keyNow
	}
	gpu := wantsGPU(s)
	if !gpu && n.Plain {
		key |= keyPlain
	}
	if policy.Nodes == model.Fill {
		if saved, ok := packerOf(c).saved(c, s, n); ok {
			return key | saved<<rankBits | uint64(rankMask-n.Index)
		}
	}
	if shared && policy.GPUs == model.Pack && c.Settings().PreferSharedGPUNodes {
		key |= keyShared
	}
	key |= fullness(n, gpu && len(s.Claims) > 0, policy.Nodes) << rankBits
	return key | uint64(rankMask-n.Index)
}

// fullness grows with what the policy prefers: less free of the type that the
// pod is about, or, to spread, a larger free part.
func fullness(n *model.LiveNode, gpu bool, order model.Spreading) uint64 {
	free, total := max(0, n.Cap[model.NodeCPU]-n.Booked[model.NodeCPU]), n.Cap[model.NodeCPU]
	if gpu {
		free, total = int64(n.WholeFree), int64(len(n.GPUs))
	}
	switch {
	case total <= 0:
		return 0
	case order == model.Spread:
		return uint64(min(free, total)) << 20 / uint64(total)
	}
	return fullestMask - min(uint64(free), fullestMask)
}
