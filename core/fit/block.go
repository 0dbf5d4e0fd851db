// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fit

import "github.com/fairslice/fairslice/core/model"

// GPUBlock is, in thousandths of a GPU, the largest block that a shape's
// claims ask for at once and the largest that a node has free for it: whole
// GPUs of the node, or, for a share, the freest single GPU.
func GPUBlock(s *model.Shape, n *model.LiveNode) (want, free int64, unit string) {
	for i := range s.Claims {
		if s.Claims[i].Kind == model.WholeGPU {
			want += 1000 * int64(s.Claims[i].Count)
		}
	}
	if want > 0 {
		return want, 1000 * int64(n.WholeFree), ""
	}
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
	if want == 0 {
		for j := range s.Claims {
			want = max(want, s.Claims[j].Milli)
		}
	}
	return want, max(free, 0), " in one piece"
}
