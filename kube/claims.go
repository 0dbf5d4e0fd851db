// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fairslice/fairslice/api/v1alpha1"
	"github.com/fairslice/fairslice/core/model"
)

// Bounds of what a container may ask for, far above any machine and far below
// overflow.
const (
	maxGPUs       = 1024
	maxMemoryGiB  = 1 << 20
	slicesPerGPU  = 100
	milliPerSlice = 10
	milliPerGPU   = 1000
	mibPerGiB     = 1024
)

// ask is what one container asks for: per units of each of count GPUs.
type ask struct {
	resource string
	kind     model.ClaimKind
	count    int
	per      int64 // 1 for a whole GPU, hundredths for slices, GiB for memory
}

// cards is true if the ask takes its GPUs entirely.
func (a ask) cards() bool {
	return a.kind == model.WholeGPU || a.kind == model.GPUSlice && a.per == slicesPerGPU
}

// part is one container's part of a claim.
type part struct {
	container string
	resource  string
	claim     int // index into the pod's claims
	positions []int
	per       int64
	// passing is true for an init container that ends before later containers
	// start and leaves its GPUs to them.
	passing bool
}

// claimSet collects the claims of a pod as the kubelet hands devices out: the
// containers in order, each draining what init containers before it left
// before it takes more. A container that drains therefore shares their GPUs,
// which is why it shares their claim.
type claimSet struct {
	asks   []ask // one per claim, with its final size
	names  []string
	parts  []part
	unused map[string]*leftover // by resource
}

// leftover is what ended init containers leave to those that follow.
type leftover struct {
	claim int
	cards []int // free positions, if whole cards
	per   int64 // free units on each GPU, otherwise
}

// claimsOf translates the GPU requests of a pod's containers. An error is one
// sentence naming the field and what is allowed.
func (c *Config) claimsOf(pod *corev1.Pod) ([]model.GPUClaim, []part, error) {
	spread, err := gpuCount(pod)
	if err != nil {
		return nil, nil, err
	}
	set := claimSet{unused: map[string]*leftover{}}
	spreads := false
	walk := func(container *corev1.Container, passing bool) error {
		a, err := c.askOf(container, spread)
		if err != nil || a == nil {
			return err
		}
		spreads = spreads || a.kind != model.WholeGPU
		return set.add(container.Name, *a, passing)
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		sidecar := container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if err := walk(container, !sidecar); err != nil {
			return nil, nil, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := walk(&pod.Spec.Containers[i], false); err != nil {
			return nil, nil, err
		}
	}
	if spread > 0 && !spreads {
		return nil, nil, fmt.Errorf("annotation %s is set, but no container asks for %s or %s, which it spreads",
			v1alpha1.AnnotationGPUCount, v1alpha1.ResourceGPUSlice, v1alpha1.ResourceGPUMemory)
	}
	return set.claims(), set.parts, nil
}

// gpuCount reads AnnotationGPUCount, 0 if it is not set.
func gpuCount(pod *corev1.Pod) (int, error) {
	value, ok := pod.Annotations[v1alpha1.AnnotationGPUCount]
	if !ok {
		return 0, nil
	}
	return v1alpha1.ParseGPUCount(value)
}

// askOf returns what a container asks for, nil for no GPU.
func (c *Config) askOf(container *corev1.Container, spread int) (*ask, error) {
	var found *ask
	for _, r := range []struct {
		name string
		kind model.ClaimKind
	}{
		{c.GPUResource, model.WholeGPU},
		{v1alpha1.ResourceGPUSlice, model.GPUSlice},
		{v1alpha1.ResourceGPUMemory, model.GPUMemory},
	} {
		n, err := requested(container, r.name, r.kind)
		switch {
		case err != nil:
			return nil, err
		case n == 0:
			continue
		case found != nil:
			return nil, fmt.Errorf("container %s asks for both %s and %s, must ask for one of them",
				container.Name, found.resource, r.name)
		}
		if found, err = newAsk(container.Name, r.name, r.kind, n, spread); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// allowed says what a container may ask for of each kind.
var allowed = map[model.ClaimKind]string{
	model.WholeGPU: fmt.Sprintf("a whole number from 0 to %d", maxGPUs),
	model.GPUSlice: fmt.Sprintf("a whole number from 0 to %d or a multiple of %d up to %d",
		slicesPerGPU, slicesPerGPU, maxGPUs*slicesPerGPU),
	model.GPUMemory: fmt.Sprintf("a whole number from 0 to %d for each GPU", maxMemoryGiB),
}

// requested returns the units of an extended resource that a container asks
// for.
func requested(container *corev1.Container, name string, kind model.ClaimKind) (int64, error) {
	q, ok := container.Resources.Requests[corev1.ResourceName(name)]
	if !ok {
		q, ok = container.Resources.Limits[corev1.ResourceName(name)]
	}
	if !ok {
		return 0, nil
	}
	if q.Sign() < 0 || q.CmpInt64(largest) > 0 || q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) != 0 {
		return 0, fmt.Errorf("container %s asks for %s %s, must be %s", container.Name, q.String(), name, allowed[kind])
	}
	return q.Value(), nil
}

func newAsk(container, resource string, kind model.ClaimKind, n int64, spread int) (*ask, error) {
	refuse := func() (*ask, error) {
		return nil, fmt.Errorf("container %s asks for %d %s, must be %s", container, n, resource, allowed[kind])
	}
	switch {
	case kind == model.WholeGPU:
		if n > maxGPUs {
			return refuse()
		}
		return &ask{resource, kind, int(n), 1}, nil
	case spread > 0 && n%int64(spread) != 0:
		return nil, fmt.Errorf("container %s asks for %d %s over %d GPUs (annotation %s), must be a multiple of %d",
			container, n, resource, spread, v1alpha1.AnnotationGPUCount, spread)
	case kind == model.GPUMemory:
		per := n / int64(max(spread, 1))
		if per > maxMemoryGiB {
			return refuse()
		}
		return &ask{resource, kind, max(spread, 1), per}, nil
	case spread > 0:
		if per := n / int64(spread); per <= slicesPerGPU {
			return &ask{resource, kind, spread, per}, nil
		}
		return nil, fmt.Errorf("container %s asks for %d %s over %d GPUs, must be at most %d for each GPU",
			container, n, resource, spread, slicesPerGPU)
	case n <= slicesPerGPU:
		return &ask{resource, kind, 1, n}, nil
	case n%slicesPerGPU == 0 && n <= maxGPUs*slicesPerGPU:
		return &ask{resource, kind, int(n / slicesPerGPU), slicesPerGPU}, nil
	}
	return refuse()
}

// add gives a container its part, from what is left over first.
func (s *claimSet) add(container string, a ask, passing bool) error {
	left := s.unused[a.resource]
	if left == nil {
		s.open(container, a, passing)
		return nil
	}
	claim := &s.asks[left.claim]
	switch {
	case a.cards() && left.cards != nil:
		s.drainCards(container, a, passing, left)
	case !a.cards() && left.cards == nil && claim.count == a.count:
		if err := s.drainUnits(container, a, passing, left); err != nil {
			return err
		}
	default:
		return fmt.Errorf("container %s re-uses the GPUs of init container %s, must ask for %s of as many GPUs",
			container, s.names[left.claim], a.resource)
	}
	if len(left.cards) == 0 && left.per == 0 {
		delete(s.unused, a.resource)
	}
	return nil
}

func (s *claimSet) open(container string, a ask, passing bool) {
	s.asks = append(s.asks, a)
	s.names = append(s.names, container)
	claim := len(s.asks) - 1
	p := part{container, a.resource, claim, upTo(0, a.count), a.per, passing}
	s.parts = append(s.parts, p)
	switch {
	case passing && a.cards():
		s.unused[a.resource] = &leftover{claim: claim, cards: upTo(0, a.count)}
	case passing:
		s.unused[a.resource] = &leftover{claim: claim, per: a.per}
	}
}

// drainCards takes whole cards: those left over first, new ones for the rest.
func (s *claimSet) drainCards(container string, a ask, passing bool, left *leftover) {
	claim := &s.asks[left.claim]
	taken := min(len(left.cards), a.count)
	fresh := upTo(claim.count, claim.count+a.count-taken)
	positions := append(append([]int(nil), left.cards[:taken]...), fresh...)
	claim.count += len(fresh)
	if passing {
		left.cards = append(left.cards, fresh...)
	} else {
		left.cards = left.cards[taken:]
	}
	s.parts = append(s.parts, part{container, a.resource, left.claim, positions, a.per, passing})
}

// drainUnits takes units of the same GPUs: those left over first.
func (s *claimSet) drainUnits(container string, a ask, passing bool, left *leftover) error {
	claim := &s.asks[left.claim]
	taken := min(left.per, a.per)
	claim.per += a.per - taken
	if claim.kind == model.GPUSlice && claim.per > slicesPerGPU {
		return fmt.Errorf("container %s re-uses the GPU of init container %s and the containers on it ask for %d %s, must be at most %d together",
			container, s.names[left.claim], claim.per, a.resource, slicesPerGPU)
	}
	if passing {
		left.per += a.per - taken
	} else {
		left.per -= taken
	}
	s.parts = append(s.parts, part{container, a.resource, left.claim, upTo(0, claim.count), a.per, passing})
	return nil
}

// claims returns the finished claims, named after the container that opened
// each.
func (s *claimSet) claims() []model.GPUClaim {
	out := make([]model.GPUClaim, len(s.asks))
	for i, a := range s.asks {
		out[i] = model.GPUClaim{Name: s.names[i], Kind: a.kind, Count: a.count}
		switch a.kind {
		case model.GPUSlice:
			out[i].Milli = a.per * milliPerSlice
		case model.GPUMemory:
			out[i].MemoryMiB = a.per * mibPerGiB
		}
	}
	return out
}

// claimPer is the units of a claim's resource on each of its GPUs.
func claimPer(c model.GPUClaim) int64 {
	switch c.Kind {
	case model.GPUSlice:
		return c.Milli / milliPerSlice
	case model.GPUMemory:
		return c.MemoryMiB / mibPerGiB
	}
	return 1
}

func upTo(from, to int) []int {
	out := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}
