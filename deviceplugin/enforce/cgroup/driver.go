// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// NoLimit is the driver's NVML_DEVICE_MEMORY_LIMIT_MAX.
const NoLimit = math.MaxUint64

// ErrUnsupported means that this driver or this machine has no such limits.
var ErrUnsupported = errors.New("the driver does not limit memory by control group")

// Driver sets limits (NVML of R615, nvmlDeviceSetMemoryLimits_v1 and
// nvmlDeviceGetMemoryLimits_v1). A control group is the full path of its
// directory; hard limits are in bytes.
type Driver interface {
	SetLimit(uuid, group string, bytes uint64) error
	// Limit is NoLimit where none is set.
	Limit(uuid, group string) (uint64, error)
	Close() error
}

// probeBytes is set for a control group without processes; any value does.
const probeBytes = 1 << 30

// Probe tries on a control group of its own, which it removes again, whether every
// one of the GPUs can be limited; ErrUnsupported is in the error's chain if the
// driver says that it cannot.
func Probe(driver Driver, cgroupRoot string, uuids []string) error {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err != nil {
		return fmt.Errorf("%w: %s is no control group hierarchy of version 2", ErrUnsupported, cgroupRoot)
	}
	dir := filepath.Join(cgroupRoot, fmt.Sprintf("fairslice-probe-%d", os.Getpid()))
	// One of the same name is left of a process that was killed here.
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("trying the driver's limits: %w", err)
	}
	defer func() { _ = os.Remove(dir) }()
	for _, uuid := range uuids {
		if err := hold(driver, Limit{uuid, probeBytes}, dir); err != nil {
			return err
		}
	}
	return nil
}
