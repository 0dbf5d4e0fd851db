// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// SetExclusive sets a GPU's compute mode to EXCLUSIVE_PROCESS, in which one process
// alone (an MPS server) may use it, or back to DEFAULT. It says whether the mode was
// another one before.
func (d *driver) SetExclusive(uuid string, on bool) (changed bool, err error) {
	dev, ret := d.lib.DeviceGetHandleByUUID(uuid)
	if ret != nvml.SUCCESS {
		return false, fmt.Errorf("GPU %s does not answer: %w", uuid, ret)
	}
	mode := nvml.COMPUTEMODE_DEFAULT
	if on {
		mode = nvml.COMPUTEMODE_EXCLUSIVE_PROCESS
	}
	if now, ret := dev.GetComputeMode(); ret == nvml.SUCCESS && now == mode {
		return false, nil
	}
	if ret := dev.SetComputeMode(mode); ret != nvml.SUCCESS {
		return false, fmt.Errorf("setting the compute mode of GPU %s: %w", uuid, ret)
	}
	return true, nil
}
