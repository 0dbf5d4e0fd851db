// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"slices"

	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/model"
)

// GPUBlock is the largest block of GPU that a shape's claims ask for at once and
// the largest that a node has free for it: whole GPUs of the node or, for a
// share, the freest single GPU. Thousandths of a GPU, or MiB of
// explain.GPUMemory where all claims ask for memory.
func GPUBlock(s *model.Shape, n *model.LiveNode) (resource string, want, free int64, unit string) {
	memory := true
	for i := range s.Claims {
		if s.Claims[i].Kind == model.WholeGPU {
			want += 1000 * int64(s.Claims[i].Count)
		}
		memory = memory && s.Claims[i].Kind == model.GPUMemory
	}
	switch {
	case want > 0:
		return model.ResourceGPU, want, 1000 * int64(n.WholeFree), ""
	case memory:
		want, free = memoryBlock(s, n)
		return explain.GPUMemory, want, free, " with enough memory"
	}
	want, free = shareBlock(s, n)
	return model.ResourceGPU, want, free, " in one piece"
}

func memoryBlock(s *model.Shape, n *model.LiveNode) (want, free int64) {
	for i := range s.Claims {
		want = max(want, s.Claims[i].MemoryMiB)
	}
	for i := range n.GPUs {
		if g := &n.GPUs[i]; g.Healthy && g.Shareable {
			free = max(free, g.MemoryMiB-g.Booked.MiB)
		}
	}
	return want, free
}

func shareBlock(s *model.Shape, n *model.LiveNode) (want, free int64) {
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if !g.Healthy || !g.Shareable || g.MemoryMiB == 0 {
			continue
		}
		part := min(1000-g.Booked.Milli, (g.MemoryMiB-g.Booked.MiB)*1000/g.MemoryMiB)
		free = max(free, part)
		for j := range s.Claims {
			milli, _ := model.ClaimOn(s.Claims[j], g)
			want = max(want, milli)
		}
	}
	for j := 0; want == 0 && j < len(s.Claims); j++ {
		want = max(want, s.Claims[j].Milli)
	}
	return want, max(free, 0)
}

// SharersFull says whether a shape would fit a node by all accounts but the
// number of claims that may share a GPU there; limit is the largest such number.
func SharersFull(s *model.Shape, n *model.LiveNode) (limit int, full bool) {
	if !s.Shared {
		return 0, false
	}
	free := model.LiveNode{Cap: n.Cap, Held: n.Held, Booked: n.Booked, GPUs: slices.Clone(n.GPUs), WholeFree: n.WholeFree, WholeFreeNow: n.WholeFreeNow}
	for i := range free.GPUs {
		limit = max(limit, free.GPUs[i].MaxSharers)
		free.GPUs[i].MaxSharers = 0
	}
	if limit == 0 {
		return 0, false
	}
	_, limited, _ := Room(s, n)
	_, unlimited, _ := Room(s, &free)
	return limit, unlimited && !limited
}

// MemoryUnknown says whether a shape asks for shares and no GPU of a node can
// serve any, because the size of their memory is not known.
func MemoryUnknown(s *model.Shape, n *model.LiveNode) bool {
	if !s.Shared || len(n.GPUs) == 0 {
		return false
	}
	for i := range n.GPUs {
		if n.GPUs[i].MemoryMiB > 0 {
			return false
		}
	}
	return true
}
