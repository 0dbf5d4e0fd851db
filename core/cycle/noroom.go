// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/core/amount"
	"github.com/fairslice/fairslice/core/explain"
	"github.com/fairslice/fairslice/core/fit"
	"github.com/fairslice/fairslice/core/model"
	"github.com/fairslice/fairslice/core/topology"
)

// shortage is why no node takes one more pod of a shape.
type shortage struct {
	placed int // pods of the chunk that found a place before
	reason explain.Reason
	words  string
}

// noRoom looks for the reason why no node takes a pod, after placed pods of its
// chunk found a place: how many nodes refuse it for what, and the largest block
// that is free.
func (d *decider) noRoom(p *model.LivePod, placed int, set topology.Set) shortage {
	nodes := set.Nodes
	if nodes == nil {
		nodes = d.c.NodeList()
	}
	h := histogram{}
	for _, n := range nodes {
		h.add(d.c, p, n)
	}
	return shortage{
		placed: placed, words: h.words(len(nodes)),
		reason: explain.Reason{Code: explain.NoNodeFits, Resource: h.resource, Requested: h.asked, LargestFree: h.largest},
	}
}

// of words a shortage for one job.
func (s shortage) of(d *decider, j *job, total int) *explain.Reason {
	r := s.reason
	subject := "no node fits"
	if total > 1 {
		r.Code, r.Missing = explain.GangDoesNotFit, total-s.placed
		subject = fmt.Sprintf("gang of %d: room for %d, no node fits the next pod", total, s.placed)
	}
	r.Message = fmt.Sprintf("%s: %s%s", subject, s.words, d.tooLarge(j))
	return &r
}

// tooLarge says of a chunk that it asks for more than there is in all, whoever
// holds it.
func (d *decider) tooLarge(j *job) string {
	for r, need := range j.need {
		if need > d.t.Total[r] {
			name := d.t.Resources[r]
			return fmt.Sprintf("; it needs %s in all, the cluster has %s", explain.Quantity(name, need), explain.Number(name, d.t.Total[r]))
		}
	}
	return ""
}

// histogram counts nodes by why they refuse a pod.
type histogram struct {
	counts         map[string]int
	resource       string
	asked, largest int64
	seenRoom       bool
}

func (h *histogram) add(c *model.Cluster, p *model.LivePod, n *model.LiveNode) {
	if h.counts == nil {
		h.counts = map[string]int{}
	}
	s := p.Shape
	if v := fit.Static(c, s, n); v != fit.Allowed {
		h.counts[v.String()]++
		return
	}
	if resource, free, want, short := fit.ShortOf(c, s, n); short {
		h.counts["too little "+explain.Noun(resource)]++
		h.block(resource, want, free)
		return
	}
	if fit.MemoryUnknown(s, n) {
		h.counts["where the size of their GPU memory is not known"]++
		return
	}
	if limit, full := fit.SharersFull(s, n); full {
		h.counts[fmt.Sprintf("where GPUs have the %d sharers that they may have", limit)]++
		return
	}
	if _, later, _ := fit.Room(s, n); !later {
		resource, want, free, unit := fit.GPUBlock(s, n)
		h.counts["too few free GPUs"+unit]++
		h.block(resource, want, free)
		return
	}
	if p.HasAffinity() {
		h.counts["pod affinity rules"]++
		return
	}
	h.counts["another pod took the room"]++
}

// block remembers the largest free block of the resource that is short, GPUs
// before others.
func (h *histogram) block(resource string, want, free int64) {
	switch {
	case h.seenRoom && isGPU(h.resource) && !isGPU(resource):
		return
	case h.seenRoom && h.resource == resource:
		h.largest = max(h.largest, free)
		return
	case h.seenRoom && !isGPU(resource) && h.resource < resource:
		return
	}
	h.resource, h.asked, h.largest, h.seenRoom = resource, want, free, true
}

func isGPU(resource string) bool {
	return resource == model.ResourceGPU || resource == explain.GPUMemory
}

func (h *histogram) words(nodes int) string {
	if nodes == 0 {
		return "there are no nodes"
	}
	kinds := make([]string, 0, len(h.counts))
	for kind := range h.counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if d := h.counts[b] - h.counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d of %d nodes %s", h.counts[kind], nodes, kind)
	}
	out := strings.Join(kinds, ", ")
	if h.seenRoom {
		out += fmt.Sprintf("; %s asked, the largest free block is %s",
			explain.Quantity(h.resource, amount.Amount(h.asked)), explain.Number(h.resource, amount.Amount(h.largest)))
	}
	return out
}
