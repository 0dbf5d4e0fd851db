// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// simulatedInstance is a MIG device. A card's have the numbers 0, 1, … as
// driver's indexes, GPU instances from 1, and one compute instance each.
type simulatedInstance struct {
	device    *mock.Device
	uuid      string
	destroyed bool
	processes simulatedProcesses
}

// addInstances puts a card into MIG mode, if its profile says so.
func (s *Simulation) addInstances(c *simulatedCard, g ProfileGPU, seed string, index int) {
	if g.MIG == nil {
		return
	}
	c.device.MigMode = nvml.DEVICE_MIG_ENABLE
	layout, slots := g.layout()
	c.device.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return slots, nvml.SUCCESS }
	c.device.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i < 0 || i >= len(c.instances) || s.isDestroyed(c.instances[i]) {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return c.instances[i].device, nvml.SUCCESS
	}
	for n, info := range layout {
		uuid := migPrefix + strings.TrimPrefix(simulatedUUID(seed, index, n), cardPrefix)
		c.instances = append(c.instances, s.newInstance(c, g, info, uuid, n))
	}
}

func (s *Simulation) newInstance(c *simulatedCard, g ProfileGPU, info migInfo, uuid string, n int) *simulatedInstance {
	const mib = 1 << 20
	i := &simulatedInstance{uuid: uuid}
	total := info.MemorySizeMB * mib
	refusal := func() nvml.Return {
		if s.isLost(c) {
			return nvml.ERROR_GPU_IS_LOST
		}
		if s.isDestroyed(i) {
			return nvml.ERROR_NOT_FOUND
		}
		return nvml.SUCCESS
	}
	i.device = &mock.Device{
		GetUUIDFunc:              func() (string, nvml.Return) { return uuid, refusal() },
		GetNameFunc:              func() (string, nvml.Return) { return g.Model + " MIG " + info.name, refusal() },
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return n + 1, refusal() },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, refusal() },
		GetAttributesFunc: func() (nvml.DeviceAttributes, nvml.Return) {
			return nvml.DeviceAttributes{
				MultiprocessorCount: info.MultiprocessorCount, GpuInstanceSliceCount: info.SliceCount,
				ComputeInstanceSliceCount: info.SliceCount, MemorySizeMB: info.MemorySizeMB,
			}, refusal()
		},
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			used := s.usedBy(&i.processes)
			return nvml.Memory{Total: total, Used: used, Free: total - used}, refusal()
		},
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
			used := s.usedBy(&i.processes)
			return nvml.Memory_v2{Total: total, Used: used, Free: total - used}, refusal()
		},
		GetDeviceHandleFromMigDeviceHandleFunc: func() (nvml.Device, nvml.Return) { return c.device, refusal() },
	}
	s.addProcesses(&i.device.GetComputeRunningProcessesFunc, &i.device.GetGraphicsRunningProcessesFunc,
		&i.device.GetMPSComputeRunningProcessesFunc, &i.device.GetRunningProcessDetailListFunc, c, &i.processes, uint32(n+1))
	return i
}

func (s *Simulation) isDestroyed(i *simulatedInstance) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return i.destroyed
}

// instance with the UUID, nil if there is none.
func (s *Simulation) instance(uuid string) (*simulatedCard, *simulatedInstance) {
	for _, c := range s.cards {
		for _, i := range c.instances {
			if i.uuid == uuid {
				return c, i
			}
		}
	}
	return nil, nil
}

// DestroyInstance removes a MIG instance of the card at the index, or makes it
// again.
func (s *Simulation) DestroyInstance(index, instance int, destroyed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards[index].instances[instance].destroyed = destroyed
}

// SetInstanceProcesses replaces what uses a MIG instance of the card at the index.
func (s *Simulation) SetInstanceProcesses(index, instance int, processes ...SimulatedProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards[index].instances[instance].processes.entries = processes
}
