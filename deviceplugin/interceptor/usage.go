// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"
)

// DeviceUsage is what a container uses of one GPU.
type DeviceUsage struct {
	// UUID without NVML's prefix: the file does not tell a card from a MIG instance.
	UUID string
	// LimitBytes is the limit in force, UsedBytes the sum over the processes.
	LimitBytes, UsedBytes uint64
	// Refusals counts allocations that were refused, RefusedBytes their sizes.
	Refusals, RefusedBytes uint64
	// Throttled is the time that launches were held back, Busy the GPU time
	// measured while throttling.
	Throttled, Busy time.Duration
	// Processes lists who uses memory.
	Processes []ProcessUsage
}

// ProcessUsage is one slot.
type ProcessUsage struct {
	// PID in the container's PID namespace. A process that died stays listed
	// until the library sweeps its slot.
	PID       uint32
	UsedBytes uint64
}

// Usage reads what the container uses, one entry per device of the limits. It
// takes no lock; sums may be torn by allocations under way.
func (r *Region) Usage() ([]DeviceUsage, error) {
	limits, err := os.ReadFile(filepath.Join(r.dir, LimitsFile))
	if err != nil {
		return nil, fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	usage, err := readHead(filepath.Join(r.dir, UsageFile), usageSize)
	if err != nil {
		return nil, fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	out, err := decodeUsage(limits, usage)
	if err != nil {
		return nil, fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	return out, nil
}

// readHead reads at most n bytes: the container may let its file grow to any size.
func readHead(file string, n int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// decodeUsage reads both files. The usage file is writable by the container, so
// nothing in it is trusted.
func decodeUsage(limits, usage []byte) ([]DeviceUsage, error) {
	if len(limits) < limitsSize || binary.LittleEndian.Uint64(limits) != limitsMagic {
		return nil, fmt.Errorf("file %s is not a limits file", LimitsFile)
	}
	if len(usage) < usageSize || binary.LittleEndian.Uint64(usage) != usageMagic {
		return nil, fmt.Errorf("file %s is not a usage file", UsageFile)
	}
	n := binary.LittleEndian.Uint32(limits[12:])
	if n > MaxDevices {
		return nil, fmt.Errorf("file %s names %d devices, at most %d are allowed", LimitsFile, n, MaxDevices)
	}
	high := min(binary.LittleEndian.Uint64(usage[slotsHighOffset:]), MaxProcesses)
	out := make([]DeviceUsage, n)
	for d := range out {
		c := usage[usageHeader+d*usageCounters:]
		u := &out[d]
		raw := limits[limitsHeader+d*limitsEntry:]
		u.UUID = fmt.Sprintf("%x-%x-%x-%x-%x", raw[0:4], raw[4:6], raw[6:8], raw[8:10], raw[10:16])
		u.LimitBytes = binary.LittleEndian.Uint64(limits[limitsHeader+d*limitsEntry+16:])
		u.Refusals = binary.LittleEndian.Uint64(c)
		u.RefusedBytes = binary.LittleEndian.Uint64(c[8:])
		u.Throttled = duration(binary.LittleEndian.Uint64(c[16:]))
		u.Busy = duration(binary.LittleEndian.Uint64(c[24:]))
		for s := range high {
			slot := usage[slotsOffset+s*slotSize:]
			used := binary.LittleEndian.Uint64(slot[slotHeader+d*16+8:])
			if used == 0 {
				continue
			}
			if u.UsedBytes > math.MaxUint64-used {
				u.UsedBytes = math.MaxUint64
			} else {
				u.UsedBytes += used
			}
			u.Processes = append(u.Processes, ProcessUsage{PID: binary.LittleEndian.Uint32(slot[8:]), UsedBytes: used})
		}
	}
	return out, nil
}

func duration(ns uint64) time.Duration {
	return time.Duration(min(ns, math.MaxInt64))
}
