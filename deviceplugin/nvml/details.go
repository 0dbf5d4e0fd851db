// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// plain reads the detailed list. Whether a driver counts protected memory within
// the other figure is not documented: the larger one is never too much.
func plain(list nvml.ProcessDetailList) []nvml.ProcessInfo {
	details := unsafe.Slice(list.ProcArray, list.NumProcArrayEntries) //nolint:gosec // NVML says how long the array is that it filled
	out := make([]nvml.ProcessInfo, 0, len(details))
	for _, p := range details {
		used := p.UsedGpuMemory
		if p.UsedGpuCcProtectedMemory != unavailable && (used == unavailable || p.UsedGpuCcProtectedMemory > used) && p.UsedGpuCcProtectedMemory > 0 {
			used = p.UsedGpuCcProtectedMemory
		}
		out = append(out, nvml.ProcessInfo{Pid: p.Pid, UsedGpuMemory: used, GpuInstanceId: p.GpuInstanceId, ComputeInstanceId: p.ComputeInstanceId})
	}
	return out
}
