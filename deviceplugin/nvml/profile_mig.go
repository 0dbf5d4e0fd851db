// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// migInfo is a MIG profile of a model.
type migInfo struct {
	nvml.GpuInstanceProfileInfo
	name string
}

// migProfiles are those of go-nvml's model, by name, and the compute slices of the
// whole card.
func (g *ProfileGPU) migProfiles() (byName map[string]migInfo, slots int) {
	byName = map[string]migInfo{}
	for id, info := range bases[g.Base].MIGProfiles.GpuInstanceProfiles {
		name := sizeName(int(info.SliceCount), int64(info.MemorySizeMB), g.MemoryMiB)
		switch id {
		case nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1, nvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1:
			name += "+me" // with the media engines
		}
		byName[name] = migInfo{info, name}
		slots = max(slots, int(info.SliceCount))
	}
	return byName, slots
}

// checkMIG says what is wrong with the layout of a card in MIG mode. Where on the
// card instances can lie is left to the driver.
func (g *ProfileGPU) checkMIG() error {
	if len(g.MIG) > 0 && g.Base == "" {
		return errors.New("mig needs base, which says what profiles there are")
	}
	known, slots := g.migProfiles()
	compute, mib := 0, int64(0)
	for _, name := range slices.Sorted(maps.Keys(g.MIG)) {
		info, is := known[name]
		n := g.MIG[name]
		switch {
		case !is:
			return fmt.Errorf("mig has profile %q, must be of %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case n < 1 || n > int(info.InstanceCount):
			return fmt.Errorf("mig has %d instances of %s, must be from 1 to %d", n, name, info.InstanceCount)
		}
		compute += n * int(info.SliceCount)
		mib += int64(n) * int64(info.MemorySizeMB)
	}
	if compute > slots || mib > g.MemoryMiB {
		return fmt.Errorf("mig needs %d compute slices and %d MiB of a card that has %d and %d", compute, mib, slots, g.MemoryMiB)
	}
	return nil
}

// layout lists the instances of each card, the largest first.
func (g *ProfileGPU) layout() (instances []migInfo, slots int) {
	known, slots := g.migProfiles()
	names := slices.SortedFunc(maps.Keys(g.MIG), func(a, b string) int {
		if c := int(known[b].SliceCount) - int(known[a].SliceCount); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		for range g.MIG[name] {
			instances = append(instances, known[name])
		}
	}
	return instances, slots
}
