// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Instance is a MIG device: a compute instance of a GPU instance of a card.
type Instance struct {
	// GPU has UUID and memory of the instance itself; Index, Minor, Model and
	// NUMANode are its card's.
	GPU
	// Card is the UUID of the card.
	Card string
	// Profile as NVIDIA names it: "1g.5gb", "1c.3g.20gb", "1g.10gb+me".
	Profile string
	// GPUInstance and ComputeInstance are the driver's numbers, by which access to
	// them is granted.
	GPUInstance, ComputeInstance int
	// ComputeMilli is its part of the card's compute slices, in thousandths.
	ComputeMilli int64
	// Shared is true where the GPU instance has more than one compute instance:
	// they have its memory in common, and nothing keeps them apart there.
	Shared bool
}

// migPrefix tells UUIDs of instances. Functions for MIG are called for those
// alone: old drivers lack them, and calling what is missing ends this process.
const migPrefix = "MIG-"

// instances lists the MIG devices of a card, by the driver's index, which has
// gaps. Those that cannot be read are in the error.
func instances(dev nvml.Device, card GPU) ([]Instance, error) {
	slots, ret := dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("counting the MIG instances of GPU %s: %w", card.UUID, ret)
	}
	var (
		out  []Instance
		lost []error
	)
	for i := range slots {
		m, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		if ret != nvml.SUCCESS {
			lost = append(lost, fmt.Errorf("MIG instance %d of GPU %s: %w", i, card.UUID, ret))
			continue
		}
		instance, err := readInstance(m, card, slots)
		if err != nil {
			lost = append(lost, fmt.Errorf("MIG instance %d of GPU %s: %w", i, card.UUID, err))
			continue
		}
		out = append(out, instance)
	}
	for i := range out {
		for j := range out {
			out[i].Shared = out[i].Shared || i != j && out[i].GPUInstance == out[j].GPUInstance
		}
	}
	return out, errors.Join(lost...)
}

func (d *driver) instancesOf(card GPU) ([]Instance, error) {
	dev, ret := d.lib.DeviceGetHandleByUUID(card.UUID)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("GPU %s does not answer: %w", card.UUID, ret)
	}
	return instances(dev, card)
}

// readInstance reads one MIG device of a card that has so many compute slices.
func readInstance(m nvml.Device, card GPU, slices int) (Instance, error) {
	i := Instance{Card: card.UUID, GPU: GPU{Index: card.Index, Minor: card.Minor, Model: card.Model, NUMANode: card.NUMANode}}
	var ret nvml.Return
	if i.UUID, ret = m.GetUUID(); ret != nvml.SUCCESS {
		return i, fmt.Errorf("reading its UUID: %w", ret)
	}
	if i.GPUInstance, ret = m.GetGpuInstanceId(); ret != nvml.SUCCESS {
		return i, fmt.Errorf("reading the GPU instance of %s: %w", i.UUID, ret)
	}
	if i.ComputeInstance, ret = m.GetComputeInstanceId(); ret != nvml.SUCCESS {
		return i, fmt.Errorf("reading the compute instance of %s: %w", i.UUID, ret)
	}
	attributes, ret := m.GetAttributes()
	if ret != nvml.SUCCESS {
		return i, fmt.Errorf("reading the attributes of %s: %w", i.UUID, ret)
	}
	if err := readMemory(m, &i.GPU); err != nil {
		return i, err
	}
	i.Profile = profileOf(m, attributes, card.TotalMiB)
	compute := min(int(attributes.ComputeInstanceSliceCount), slices)
	i.ComputeMilli = int64(compute) * 1000 / int64(slices)
	return i, nil
}

// profileName is how NVIDIA names profiles, with attributes such as "+me".
var profileName = regexp.MustCompile(`^([1-9]c\.)?[1-9]g\.[1-9][0-9]{0,3}gb([+-][a-z]+(\.[a-z]+)?)*$`)

// profileOf is the end of the device's name, "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
// which alone tells attributes; else it follows from the sizes.
func profileOf(m nvml.Device, a nvml.DeviceAttributes, cardMiB int64) string {
	if name, ret := m.GetName(); ret == nvml.SUCCESS {
		if at := strings.LastIndex(name, " MIG "); at >= 0 {
			if profile := strings.TrimSpace(name[at+len(" MIG "):]); profileName.MatchString(profile) {
				return profile
			}
		}
	}
	profile := sizeName(int(a.GpuInstanceSliceCount), int64(a.MemorySizeMB), cardMiB)
	if a.ComputeInstanceSliceCount < a.GpuInstanceSliceCount {
		profile = fmt.Sprintf("%dc.%s", a.ComputeInstanceSliceCount, profile)
	}
	return profile
}

// sizeName is "<slices>g.<GB>gb": NVIDIA counts memory in eighths of the card.
func sizeName(slices int, mib, cardMiB int64) string {
	const eighths, mibPerGB = 8, 1024
	parts := math.Round(float64(mib) * eighths / float64(max(1, cardMiB)))
	gb := (cardMiB + mibPerGB - 1) / mibPerGB
	return fmt.Sprintf("%dg.%dgb", slices, int64(math.Round(parts*float64(gb)/eighths)))
}

// handle of a card or an instance, and of the card.
func (d *driver) handle(uuid string) (dev, card nvml.Device, err error) {
	dev, ret := d.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return nil, nil, fmt.Errorf("GPU %s does not answer: %w", uuid, ret)
	}
	if !strings.HasPrefix(uuid, migPrefix) {
		return dev, dev, nil
	}
	if card, ret = dev.GetDeviceHandleFromMigDeviceHandle(); ret != nvml.SUCCESS {
		return nil, nil, fmt.Errorf("the GPU of MIG instance %s does not answer: %w", uuid, ret)
	}
	return dev, card, nil
}
