// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/fairslice/fairslice/deviceplugin/hostproc"
	"github.com/fairslice/fairslice/deviceplugin/match"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// Process is a process on a card and where it runs.
type Process struct {
	hostproc.Process
	UsedBytes uint64
	Unknown   bool
}

// Asked is how much a container asked for of one resource, on one card.
type Asked struct {
	Kind  pool.Kind
	Units int64
}

// Sample is one container's part of one card.
type Sample struct {
	Owner match.Owner
	UUID  string
	// Asked by resource; a container may hold two of ours.
	Asked []Asked
	// MilliGPU and LimitBytes are what it may use.
	MilliGPU   int64
	LimitBytes uint64
	// Whole is true where the card is its own: then nothing limits it.
	Whole bool
	// Instance is true where it is a MIG instance, to which the hardware holds it.
	Instance bool
	// Processes that use the card. ContainerID is the youngest's.
	Processes   []Process
	ContainerID string
}

// UsedBytes sums what is known; unknown counts the processes that are flagged.
func (s Sample) UsedBytes() (bytes uint64, unknown int) { return sum(s.Processes) }

// Foreign is a process that no container of the card accounts for.
type Foreign struct {
	Process
	// Owner is set where it runs in a pod that was not given the card.
	Owner match.Owner
}

// Card is who uses one card.
type Card struct {
	UUID    string
	Samples []Sample
	Foreign []Foreign
}

// ForeignBytes sums what is known of foreign use.
func (c Card) ForeignBytes() (bytes uint64, unknown int) {
	all := make([]Process, 0, len(c.Foreign))
	for _, f := range c.Foreign {
		all = append(all, f.Process)
	}
	return sum(all)
}

func sum(processes []Process) (bytes uint64, unknown int) {
	for _, p := range processes {
		bytes += min(p.UsedBytes, math.MaxUint64-bytes)
		if p.Unknown {
			unknown++
		}
	}
	return bytes, unknown
}

// Granted lists one empty sample for each container that holds a part of the card,
// by namespace, pod and container. Only what the kubelet has confirmed counts:
// before that, the owner is a guess, and no process of it runs.
func Granted(uuid string, held []match.Allocation) []Sample {
	var out []Sample
	for _, h := range held {
		for _, share := range h.Shares {
			if share.GPU.UUID != uuid || !h.Confirmed || h.Owner.Pod == "" {
				continue
			}
			at := slices.IndexFunc(out, func(s Sample) bool { return s.Owner == h.Owner })
			if at < 0 {
				at = len(out)
				out = append(out, Sample{Owner: h.Owner, UUID: uuid})
			}
			out[at].add(h.Kind, share)
		}
	}
	slices.SortFunc(out, func(a, b Sample) int { return compareOwners(a.Owner, b.Owner) })
	return out
}

func (s *Sample) add(k pool.Kind, share pool.Share) {
	s.MilliGPU += share.MilliGPU
	s.LimitBytes += uint64(share.MemoryMiB) << 20
	s.Whole, s.Instance = s.Whole || !k.Parts(), share.GPU.Instance
	at := slices.IndexFunc(s.Asked, func(a Asked) bool { return a.Kind == k })
	if at < 0 {
		at = len(s.Asked)
		s.Asked = append(s.Asked, Asked{Kind: k})
	}
	s.Asked[at].Units += share.Units
}

// Attribute gives each process of a card to its container. who is a Directory's
// Owner.
func Attribute(uuid string, held []match.Allocation, processes []Process, who func(hostproc.Container) (match.Owner, bool)) Card {
	c := Card{UUID: uuid, Samples: Granted(uuid, held)}
	for _, p := range processes {
		owner, known := who(p.Container)
		at := slices.IndexFunc(c.Samples, func(s Sample) bool { return known && s.Owner == owner })
		if at < 0 {
			c.Foreign = append(c.Foreign, Foreign{Process: p, Owner: owner})
			continue
		}
		s := &c.Samples[at]
		s.Processes = append(s.Processes, p)
		youngest := slices.MaxFunc(s.Processes, func(a, b Process) int { return cmp.Compare(a.Start, b.Start) })
		s.ContainerID = youngest.ID
	}
	return c
}

func compareOwners(a, b match.Owner) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod),
		strings.Compare(a.PodUID, b.PodUID), strings.Compare(a.Container, b.Container))
}
