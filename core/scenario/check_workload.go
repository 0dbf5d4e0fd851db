// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fairslice/fairslice/core/amount"
)

// operators of a Requirement.
var operators = []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}

const unlimited = amount.Unlimited

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (w *Workload) check(path string, workloads, pods, nodes names) error {
	if err := workloads.add(path, w.Name); err != nil {
		return err
	}
	switch {
	case len(w.SubGroups) > 0 && w.MinMember != nil:
		return at(path, errors.New("minMember and subGroups exclude each other"))
	case w.MinMember != nil && *w.MinMember < 0:
		return at(path+".minMember", fmt.Errorf("is %d; allowed: at least 0", *w.MinMember))
	case w.MinSubGroup != nil && *w.MinSubGroup < 0:
		return at(path+".minSubGroup", fmt.Errorf("is %d; allowed: at least 0", *w.MinSubGroup))
	case len(w.Pods) > 0 && w.Replicas > 0:
		return at(path, errors.New("pods and replicas exclude each other"))
	}
	err := errors.Join(
		within(path+".replicas", w.Replicas, 0, maxReplicas),
		oneOf(path+".nodePlacement", w.NodePlacement, placements),
		oneOf(path+".gpuSharing", w.GPUSharing, placements),
		w.Request.check(path+".request"),
		w.checkGroups(path),
	)
	if err != nil {
		return err
	}
	for i, name := range w.PodNames() {
		podPath := fmt.Sprintf("%s.pods[%d]", path, i)
		if err := pods.add(podPath, name); err != nil {
			return err
		}
		if i >= len(w.Pods) {
			continue
		}
		if err := w.Pods[i].check(podPath, nodes); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workload) checkGroups(path string) error {
	seen := names{}
	for i, set := range w.SubGroupSets {
		setPath := fmt.Sprintf("%s.subGroupSets[%d]", path, i)
		if err := errors.Join(seen.add(setPath, set.Name), notNegative(setPath+".minSubGroup", set.MinSubGroup)); err != nil {
			return err
		}
	}
	sets := maps.Clone(seen)
	for i, g := range w.SubGroups {
		groupPath := fmt.Sprintf("%s.subGroups[%d]", path, i)
		err := errors.Join(seen.add(groupPath, g.Name), within(groupPath+".minMember", g.MinMember, 0, maxReplicas))
		if err != nil {
			return err
		}
		if g.Parent != "" && !sets[g.Parent] {
			return at(groupPath+".parent", fmt.Errorf("names sub-group set %s, which does not exist", g.Parent))
		}
	}
	return nil
}

func (p *Pod) check(path string, nodes names) error {
	if p.State != "" {
		if err := oneOf(path+".state", p.State, States); err != nil {
			return err
		}
	}
	if Holds(p.State) {
		if p.Node == "" {
			return at(path+".node", fmt.Errorf("is missing; a pod that is %s is on a node", p.State))
		}
		if !nodes[p.Node] {
			return at(path+".node", fmt.Errorf("names node %s, which does not exist", p.Node))
		}
	}
	for i, c := range p.Claims {
		claimPath := fmt.Sprintf("%s.claims[%d]", path, i)
		err := errors.Join(within(claimPath+".count", c.Count, 1, maxNodeGPUs), within(claimPath+".milli", c.Milli, 0, milliPerGPU),
			notNegative(claimPath+".memoryMiB", &c.MemoryMiB))
		if err != nil {
			return err
		}
	}
	for i, term := range p.NodeTerms {
		for j, r := range term {
			if err := oneOf(fmt.Sprintf("%s.nodeTerms[%d][%d].op", path, i, j), r.Op, operators); err != nil {
				return err
			}
		}
	}
	if p.Request != nil {
		return p.Request.check(path + ".request")
	}
	return nil
}

func (r *Request) check(path string) error {
	kinds := 0
	for _, set := range []bool{r.GPU != 0, r.GPUSlicePercent != 0, r.GPUMemoryMiB != 0, len(r.MIG) > 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return at(path, errors.New("gpu, gpuSlicePercent, gpuMemoryMiB and mig exclude each other"))
	case r.GPU < 0 || r.GPU > maxNodeGPUs*milliPerGPU:
		return at(path+".gpu", fmt.Errorf("is out of range; allowed: 0 to %d", maxNodeGPUs))
	case r.GPU > milliPerGPU && r.GPU%milliPerGPU != 0:
		return at(path+".gpu", errors.New("is above 1 and not whole; allowed: whole numbers, or a fraction below 1"))
	case r.GPUSlicePercent > 100 && r.GPUSlicePercent%100 != 0:
		return at(path+".gpuSlicePercent", fmt.Errorf("is %d; allowed: 1 to 100, or a multiple of 100", r.GPUSlicePercent))
	}
	return errors.Join(
		within(path+".gpuSlicePercent", r.GPUSlicePercent, 0, 100*maxNodeGPUs),
		within(path+".gpuDevices", r.GPUDevices, 0, maxNodeGPUs),
		within(path+".draGpus", r.DRAGPUs, 0, maxNodeGPUs),
		notNegative(path+".gpuMemoryMiB", &r.GPUMemoryMiB),
		notNegative(path+".cpuMilli", r.CPUMilli),
		notNegative(path+".memoryMiB", (*int64)(r.MemoryMiB)),
		counts(path+".mig", r.MIG),
		counts(path+".other", r.Other),
	)
}
