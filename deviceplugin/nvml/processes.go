// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Process is a process that uses memory of a GPU.
type Process struct {
	// PID in the PID namespace of the driver's reader, the host's for a plugin
	// that runs there.
	PID uint32
	// UsedBytes of the GPU's memory, contexts included; what is known of it where
	// Unknown is set.
	UsedBytes uint64
	// Unknown is true where the driver does not say how much the process uses, or
	// a part of it.
	Unknown bool
}

// Memory of a card now, in MiB.
type Memory struct {
	TotalMiB, ReservedMiB, UsedMiB int64
}

func (d *driver) Memory(uuid string) (Memory, error) {
	dev, ret := d.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return Memory{}, fmt.Errorf("GPU %s does not answer: %w", uuid, ret)
	}
	g := GPU{UUID: uuid}
	if err := readMemory(dev, &g); err != nil {
		return Memory{}, err
	}
	return Memory{g.TotalMiB, g.ReservedMiB, g.UsedMiB}, nil
}

// Processes asks for all of the driver's lists: compute, graphics, MPS clients and,
// where the driver has it, the detailed one, which alone tells protected memory. A
// driver that lacks a list does not fail the call, one without any does. go-nvml
// asks again with more room while a list grows.
func (d *driver) Processes(uuid string) ([]Process, error) {
	dev, ret := d.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("GPU %s does not answer: %w", uuid, ret)
	}
	var (
		all     [][]nvml.ProcessInfo
		refusal nvml.Return
	)
	for _, list := range []func() ([]nvml.ProcessInfo, nvml.Return){
		dev.GetComputeRunningProcesses, dev.GetGraphicsRunningProcesses, dev.GetMPSComputeRunningProcesses, d.detailed(dev),
	} {
		processes, ret := list()
		switch ret {
		case nvml.SUCCESS:
			all = append(all, processes)
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND:
			refusal = ret
		default:
			// Half of the lists would read as memory that was given back.
			return nil, fmt.Errorf("listing the processes of GPU %s: %w", uuid, ret)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("listing the processes of GPU %s: %w", uuid, refusal)
	}
	return union(all), nil
}

// symbolDetails is missing in older drivers, and calling it there would end this
// process.
const symbolDetails = "nvmlDeviceGetRunningProcessDetailList"

func (d *driver) detailed(dev nvml.Device) func() ([]nvml.ProcessInfo, nvml.Return) {
	return func() ([]nvml.ProcessInfo, nvml.Return) {
		if d.lib.Extensions().LookupSymbol(symbolDetails) != nil {
			return nil, nvml.ERROR_FUNCTION_NOT_FOUND
		}
		list, ret := dev.GetRunningProcessDetailList()
		if ret != nvml.SUCCESS {
			// An extra: its version or a privilege may be missing where the others work.
			return nil, nvml.ERROR_NOT_SUPPORTED
		}
		if list.ProcArray == nil || list.NumProcArrayEntries == 0 {
			return nil, nvml.SUCCESS
		}
		return plain(list), nvml.SUCCESS
	}
}

// unavailable is the driver's value for "not available": under WSL, in some vGPU
// guests, without privilege.
const unavailable = math.MaxUint64

// union joins the lists. A process may be in several lists of one instance and is
// counted once there, by the largest figure; it may use several instances of a card
// in MIG mode, and their figures add up.
func union(lists [][]nvml.ProcessInfo) []Process {
	type use struct{ pid, gpuInstance, computeInstance uint32 }
	known, unknown := map[use]uint64{}, map[use]bool{}
	for _, list := range lists {
		for _, p := range list {
			u := use{p.Pid, p.GpuInstanceId, p.ComputeInstanceId}
			if p.UsedGpuMemory == unavailable {
				unknown[u] = true
				continue
			}
			known[u] = max(known[u], p.UsedGpuMemory)
		}
	}
	byPID := map[uint32]*Process{}
	of := func(pid uint32) *Process {
		if byPID[pid] == nil {
			byPID[pid] = &Process{PID: pid}
		}
		return byPID[pid]
	}
	for u, bytes := range known {
		p := of(u.pid)
		p.UsedBytes += min(bytes, math.MaxUint64-p.UsedBytes)
	}
	for u := range unknown {
		if _, told := known[u]; !told {
			of(u.pid).Unknown = true
		}
	}
	out := make([]Process, 0, len(byPID))
	for _, p := range byPID {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return out
}
