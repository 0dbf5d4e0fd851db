// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/deviceplugin/pool"
)

// Correction is an annotation that should be written on a pod.
type Correction struct {
	PodUID, Namespace, Pod string
	Assignment             v1alpha1.Assignment
}

// Corrections lists the pods whose annotation does not say what the kubelet has
// recorded, or what is planned now for a container that waits, ordered by UID. Pods
// that the control plane did not place get one too, so that its account knows their
// GPUs.
func (b *Book) Corrections() []Correction {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []Correction
	for _, p := range b.pods {
		if p.terminal {
			continue
		}
		a, wrong := b.truth(p)
		if wrong {
			out = append(out, Correction{PodUID: p.uid, Namespace: p.namespace, Pod: p.name, Assignment: a})
		}
	}
	slices.SortFunc(out, func(x, y Correction) int { return compareStrings(x.PodUID, y.PodUID) })
	return out
}

// truth is the pod's assignment with what is confirmed or traded put in, and whether
// that changed it.
func (b *Book) truth(p *pod) (v1alpha1.Assignment, bool) {
	a := v1alpha1.Assignment{Version: v1alpha1.CodecVersion, PodUID: p.uid, Node: b.cfg.Node}
	a.Containers = slices.Clone(p.assignment.Containers)
	wrong := false
	for _, n := range p.needs {
		at := slices.IndexFunc(b.holdings, func(h *holding) bool {
			return h.confirmed && h.kind == n.kind && h.owner.PodUID == p.uid && h.owner.Container == n.owner.Container
		})
		var gpus []v1alpha1.AssignedGPU
		switch plan, traded := b.traded[claim{n.owner, n.kind}]; {
		case at >= 0 && len(b.holdings[at].shares) > 0:
			actual := b.holdings[at].shares
			if n.plan != nil && matches(n.plan, actual) && n.plan[0].UUID != "" {
				continue
			}
			gpus = assigned(actual)
		case at < 0 && traded && !slices.Equal(plan, n.plan):
			gpus = plan
		default:
			continue
		}
		wrong = true
		entry := v1alpha1.ContainerAssignment{Name: n.owner.Container, Resource: b.cfg.Names[n.kind], GPUs: gpus}
		if i := slices.IndexFunc(a.Containers, func(c v1alpha1.ContainerAssignment) bool {
			return c.Name == entry.Name && (c.Resource == entry.Resource || !b.asks(p, c))
		}); i >= 0 {
			a.Containers[i] = entry
		} else {
			a.Containers = append(a.Containers, entry)
		}
	}
	return a, wrong
}

// asks says whether a container of the pod asks for what an entry gives it.
func (b *Book) asks(p *pod, c v1alpha1.ContainerAssignment) bool {
	return slices.ContainsFunc(p.needs, func(n need) bool { return n.owner.Container == c.Name && b.cfg.Names[n.kind] == c.Resource })
}

func assigned(shares []pool.Share) []v1alpha1.AssignedGPU {
	out := make([]v1alpha1.AssignedGPU, 0, len(shares))
	for _, s := range shares {
		out = append(out, v1alpha1.AssignedGPU{UUID: s.GPU.UUID, Units: s.Units, MilliGPU: s.MilliGPU, MemoryMiB: s.MemoryMiB})
	}
	return out
}
