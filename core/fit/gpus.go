// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package fit

import (
	"slices"

	"github.com/fairslice/fairslice/core/model"
)

// view is which account of a node a choice must fit.
type view int8

const (
	viewNow view = iota
	viewLater
)

// maxSteps bounds the search for GPUs of pods with several claims.
const maxSteps = 512

// unit is one GPU of a claim.
type unit struct {
	claim int32
	cl    *model.GPUClaim
}

// chooser assigns GPUs of one node to the claims of a pod.
type chooser struct {
	units []unit
	holds []model.GPUHold
	own   []model.Use // what this pod takes already, per GPU
	steps int
	order model.Spreading
	view  view
	node  *model.LiveNode
}

// GPUs chooses GPUs of a node for a shape. It prefers those that are free now;
// now says whether all chosen ones are, ok whether the claims can be served at
// all once what is being released is gone.
func GPUs(s *model.Shape, n *model.LiveNode, order model.Spreading) (holds []model.GPUHold, now, ok bool) {
	if len(s.Claims) == 0 {
		return nil, true, true
	}
	ch := chooser{}
	if ch.choose(s, n, viewNow, order) {
		return ch.holds, true, true
	}
	if ch.choose(s, n, viewLater, order) {
		return ch.holds, false, true
	}
	return nil, false, false
}

func (ch *chooser) choose(s *model.Shape, n *model.LiveNode, v view, order model.Spreading) bool {
	ch.node, ch.view, ch.order, ch.steps = n, v, order, 0
	ch.units, ch.holds = ch.units[:0], ch.holds[:0]
	total := 0
	for i := range s.Claims {
		total += s.Claims[i].Count
		if s.Claims[i].Count > len(n.GPUs) {
			return false
		}
	}
	ch.units = slices.Grow(ch.units, total)
	for i := range s.Claims {
		for range s.Claims[i].Count {
			ch.units = append(ch.units, unit{int32(i), &s.Claims[i]})
		}
	}
	if len(s.Claims) > 1 {
		slices.SortStableFunc(ch.units, largerFirst)
	}
	ch.own = slices.Grow(ch.own[:0], len(n.GPUs))[:len(n.GPUs)]
	clear(ch.own)
	return ch.assign(0)
}

// largerFirst puts whole GPUs first, then shares by size, so that the first
// choice is rarely taken back.
func largerFirst(a, b unit) int {
	if w := (a.cl.Kind == model.WholeGPU); w != (b.cl.Kind == model.WholeGPU) {
		if w {
			return -1
		}
		return 1
	}
	if d := b.cl.Milli - a.cl.Milli; d != 0 {
		return int(d)
	}
	if d := b.cl.MemoryMiB - a.cl.MemoryMiB; d != 0 {
		return int(min(max(d, -1), 1))
	}
	return 0
}

// assign serves the units from k on, trying GPUs from the most preferred one.
func (ch *chooser) assign(k int) bool {
	if k == len(ch.units) {
		return true
	}
	single := ch.units[0].claim == ch.units[len(ch.units)-1].claim
	var tried uint64
	for {
		at := ch.best(k, tried)
		if at < 0 {
			return false
		}
		milli, mib := model.ClaimOn(*ch.units[k].cl, &ch.node.GPUs[at])
		h := model.GPUHold{GPU: int32(at), Claim: ch.units[k].claim, Milli: milli, MiB: mib}
		ch.holds = append(ch.holds, h)
		ch.own[at] = model.Use{Milli: ch.own[at].Milli + milli, MiB: ch.own[at].MiB + mib, Pods: ch.own[at].Pods + 1}
		if ch.assign(k + 1) {
			return true
		}
		// One claim's GPUs are interchangeable: another choice fails as well.
		if ch.steps++; single || at >= 64 || ch.steps > maxSteps {
			return false
		}
		tried |= 1 << at
		ch.holds = ch.holds[:len(ch.holds)-1]
		ch.own[at] = model.Use{Milli: ch.own[at].Milli - milli, MiB: ch.own[at].MiB - mib, Pods: ch.own[at].Pods - 1}
	}
}

// best finds the most preferred GPU for unit k among those not yet tried.
func (ch *chooser) best(k int, tried uint64) int {
	best, bestScore := -1, int64(0)
	for i := range ch.node.GPUs {
		if i < 64 && tried&(1<<i) != 0 || ch.taken(i, ch.units[k].claim) || !ch.fits(i, ch.units[k].cl) {
			continue
		}
		if score := ch.score(i, ch.units[k].cl); best < 0 || score > bestScore {
			best, bestScore = i, score
		}
	}
	return best
}

// taken says whether a claim has GPU i already: its GPUs are all different.
func (ch *chooser) taken(i int, claim int32) bool {
	if ch.own[i].Pods == 0 {
		return false
	}
	return slices.ContainsFunc(ch.holds, func(h model.GPUHold) bool { return int(h.GPU) == i && h.Claim == claim })
}

func (ch *chooser) fits(i int, cl *model.GPUClaim) bool {
	g := &ch.node.GPUs[i]
	if cl.Kind == model.WholeGPU {
		return g.Healthy && ch.own[i].Pods == 0 && g.Booked.Pods == 0 && (ch.view == viewLater || g.Held.Pods == 0)
	}
	milli, mib := model.ClaimOn(*cl, g)
	more := model.Use{Milli: milli + ch.own[i].Milli, MiB: mib + ch.own[i].MiB, Pods: 1 + ch.own[i].Pods}
	return shareFits(g, g.Booked, more) && (ch.view == viewLater || shareFits(g, g.Held, more))
}

// score prefers GPUs. Shares fill the fullest GPU first (pack) or take the
// freest (spread); whole GPUs leave shareable ones to shares.
func (ch *chooser) score(i int, cl *model.GPUClaim) int64 {
	g := &ch.node.GPUs[i]
	if cl.Kind == model.WholeGPU {
		score := int64(0)
		if !g.Shareable {
			score += 2
		}
		if g.Held.Pods == 0 {
			score++
		}
		return score
	}
	used := g.Booked.Milli + ch.own[i].Milli
	milli, mib := model.ClaimOn(*cl, g)
	score := used + 1
	if g.Booked.Pods+ch.own[i].Pods == 0 {
		score = 0
	}
	if ch.order == model.Spread {
		score = 1000 - used
	}
	if shareFits(g, g.Held, model.Use{Milli: milli + ch.own[i].Milli, MiB: mib + ch.own[i].MiB, Pods: 1 + ch.own[i].Pods}) {
		score += 10_000
	}
	return score
}

// joins says whether the choice uses a GPU that others use in part.
func (ch *chooser) joins(n *model.LiveNode) bool {
	return slices.ContainsFunc(ch.holds, func(h model.GPUHold) bool { return h.Milli < 1000 && n.GPUs[h.GPU].Booked.Pods > 0 })
}

// Serves says whether the GPUs of a choice made elsewhere may be handed out in
// that way: to claims that there are, shares only of GPUs that are shareable and
// of known size, and nothing of unhealthy ones.
func Serves(s *model.Shape, n *model.LiveNode, holds []model.GPUHold) bool {
	return !slices.ContainsFunc(holds, func(h model.GPUHold) bool {
		g := &n.GPUs[h.GPU]
		return h.Claim < 0 || !g.Healthy || s.Claims[h.Claim].Kind != model.WholeGPU && (!g.Shareable || g.MemoryMiB == 0)
	})
}
