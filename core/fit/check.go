// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"fmt"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// Check says why a pod cannot start on a node now; nil means that it can. What
// the pod itself was promised, there or elsewhere, counts as free. Queues are
// not looked at.
func Check(c *model.Cluster, podUID, node string) *explain.Reason {
	c.Settle()
	p := c.PodByUID(podUID)
	if p == nil {
		return &explain.Reason{Code: explain.InvalidRequest, Message: fmt.Sprintf("pod %s is not known", podUID)}
	}
	n := c.NodeNamed(node)
	if n == nil {
		return refusal("node %s is not known", node)
	}
	if v := Static(c, p.Shape, n); v != Allowed {
		return refusal("node %s: %s", node, v)
	}
	if p.Phase == model.Awaiting {
		mark := c.Mark()
		defer c.Undo(mark)
		held := p.Held
		home := p.Node == n
		c.Move(p, model.Place{})
		if now, _ := Again(c, p, n, held); home && now && len(held) == p.Shape.GPUs {
			return nil
		}
		if r := checkRoom(c, p, n); !home || r != nil {
			return r
		}
		// It would start on the GPUs that it was promised, whatever else is free.
		r := refusal("node %s: the GPUs that the pod was promised there are not free", node)
		r.Code = explain.WaitingForRelease
		return r
	}
	return checkRoom(c, p, n)
}

func checkRoom(c *model.Cluster, p *model.LivePod, n *model.LiveNode) *explain.Reason {
	s, node := p.Shape, n.Spec.Name
	now, later, _ := Room(s, n)
	if p.HasAffinity() {
		affinityNow, affinityLater := c.AffinityAllows(p, n)
		if !affinityLater {
			return refusal("node %s: pod affinity rules", node)
		}
		now = now && affinityNow
	}
	switch {
	case now:
		return nil
	case later:
		r := refusal("node %s: the room is still being released", node)
		r.Code = explain.WaitingForRelease
		return r
	}
	if MemoryUnknown(s, n) {
		return refusal("node %s: the size of its GPU memory is not known, so no shares of its GPUs can be handed out", node)
	}
	if limit, full := SharersFull(s, n); full {
		return refusal("node %s: its GPUs have the %d sharers that they may have", node, limit)
	}
	resource, free, want, short := ShortOf(c, s, n)
	what := ""
	if !short {
		resource, want, free, what = GPUBlock(s, n)
	}
	r := refusal("node %s: %s asked%s, %s free", node, explain.Quantity(resource, amount.Amount(want)), what,
		explain.Number(resource, amount.Amount(max(free, 0))))
	r.Resource, r.Requested, r.LargestFree = resource, want, max(free, 0)
	return r
}

func refusal(format string, args ...any) *explain.Reason {
	return &explain.Reason{Code: explain.NoNodeFits, Message: fmt.Sprintf(format, args...)}
}
