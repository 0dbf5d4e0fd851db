// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Names and constants of the region, equal to those of src/region.h.
const (
	// MountPath is where the library looks for the region in a container.
	MountPath = "/run/fairslice"
	// LimitsFile and UsageFile are the region's two files.
	LimitsFile = "limits"
	UsageFile  = "usage"
	// Version of both files. The library refuses any other.
	Version = 1
	// MaxDevices and MaxProcesses bound one container.
	MaxDevices   = 16
	MaxProcesses = 1024
	// Unlimited is the memory limit that never refuses.
	Unlimited = uint64(math.MaxUint64)

	limitsMagic  = uint64(0x31544d494c4c5346)
	usageMagic   = uint64(0x3145474153554c46)
	limitsHeader = 64
	limitsEntry  = 64
	limitsSize   = limitsHeader + MaxDevices*limitsEntry

	usageHeader   = 64
	usageCounters = 64
	slotsOffset   = 4096
	slotHeader    = 64
	slotSize      = slotHeader + MaxDevices*16
	usageSize     = slotsOffset + MaxProcesses*slotSize

	generationOffset = 16
	slotsHighOffset  = 24

	flagManagedFree = 1
)

// Limits is what one container may use.
type Limits struct {
	// Devices lists the GPUs the container was given, at most MaxDevices. A GPU
	// that is not listed gets no memory.
	Devices []DeviceLimit
	// ManagedFree exempts managed (unified) memory, which may live on the host,
	// from the limit. By default it is charged in full.
	ManagedFree bool
}

// DeviceLimit is what a container may use of one GPU.
type DeviceLimit struct {
	// UUID as NVML reports it, GPU-… or MIG-….
	UUID string
	// MemoryBytes is the limit, or Unlimited.
	MemoryBytes uint64
	// ContextBytes is charged for each context of each process; 0 where the
	// node's reserve covers contexts.
	ContextBytes uint64
	// ComputeMilli is the share of compute time, 1 to 1000; 1000 is not
	// throttled.
	ComputeMilli uint32
}

// Region is the budget of one container.
type Region struct {
	dir string
}

// Create writes a fresh region into dir, which it makes. The limits are readable
// by all and writable by the owner, the usage file is writable by all, since a
// container may run as any user. An existing region there is replaced; a
// container that still runs keeps the files that it has mounted.
func Create(dir string, l Limits) (*Region, error) {
	raw, err := l.encode()
	if err != nil {
		return nil, fmt.Errorf("GPU budget %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("GPU budget %s: %w", dir, err)
	}
	usage := make([]byte, usageSize)
	binary.LittleEndian.PutUint64(usage, usageMagic)
	binary.LittleEndian.PutUint32(usage[8:], Version)
	binary.LittleEndian.PutUint32(usage[12:], MaxProcesses)
	if err := replace(filepath.Join(dir, UsageFile), usage, 0o666); err != nil {
		return nil, fmt.Errorf("GPU budget %s: %w", dir, err)
	}
	// Limits come last: their presence is what makes the region one.
	if err := replace(filepath.Join(dir, LimitsFile), raw, 0o644); err != nil {
		return nil, fmt.Errorf("GPU budget %s: %w", dir, err)
	}
	return &Region{dir: dir}, nil
}

// Open returns the region in dir. It fails on files of another version.
func Open(dir string) (*Region, error) {
	for name, magic := range map[string]uint64{LimitsFile: limitsMagic, UsageFile: usageMagic} {
		head := make([]byte, 16)
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("GPU budget %s: %w", dir, err)
		}
		_, err = f.ReadAt(head, 0)
		err = errors.Join(err, f.Close())
		if err != nil {
			return nil, fmt.Errorf("GPU budget %s: file %s: %w", dir, name, err)
		}
		if got := binary.LittleEndian.Uint64(head); got != magic {
			return nil, fmt.Errorf("GPU budget %s: file %s begins with %#x, must begin with %#x", dir, name, got, magic)
		}
		if v := binary.LittleEndian.Uint32(head[8:]); v != Version {
			return nil, fmt.Errorf("GPU budget %s: file %s has version %d, must be %d", dir, name, v, Version)
		}
	}
	return &Region{dir: dir}, nil
}

// SetLimits changes the limits of a region in place, while containers run: the
// next allocation sees them. What is already granted above a lowered limit stays.
// The devices must be those the region was made with, in the same order.
func (r *Region) SetLimits(l Limits) error {
	raw, err := l.encode()
	if err != nil {
		return fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	path := filepath.Join(r.dir, LimitsFile)
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	if len(old) < limitsSize || binary.LittleEndian.Uint32(old[12:]) != uint32(len(l.Devices)) {
		return fmt.Errorf("GPU budget %s: field Devices has %d entries, must have as many as the region was made with", r.dir, len(l.Devices))
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	for i := range l.Devices {
		at := limitsHeader + i*limitsEntry
		if string(old[at:at+16]) != string(raw[at:at+16]) {
			return errors.Join(fmt.Errorf("GPU budget %s: field Devices[%d].UUID is %s, must be the region's own", r.dir, i, l.Devices[i].UUID), f.Close())
		}
		// One aligned 8-byte write each: a reader sees the old or the new value.
		for _, field := range []struct{ off, n int }{{16, 8}, {24, 8}, {32, 4}} {
			if _, err := f.WriteAt(raw[at+field.off:at+field.off+field.n], int64(at+field.off)); err != nil {
				return errors.Join(fmt.Errorf("GPU budget %s: %w", r.dir, err), f.Close())
			}
		}
	}
	return f.Close()
}

// Reset empties every slot. The node agent calls it when a container starts again
// (PreStartContainer): no process of its predecessor lives, but their slots would
// otherwise meet new processes with the same small PIDs. Counters stay. A process
// that runs nevertheless claims a slot anew and writes what it holds.
func (r *Region) Reset() error {
	f, err := os.OpenFile(filepath.Join(r.dir, UsageFile), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	defer f.Close()
	head := make([]byte, usageHeader)
	if _, err := f.ReadAt(head, 0); err != nil {
		return fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	high := min(binary.LittleEndian.Uint64(head[slotsHighOffset:]), MaxProcesses)
	if _, err := f.WriteAt(make([]byte, high*slotSize), slotsOffset); err != nil {
		return fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	generation := make([]byte, 8)
	binary.LittleEndian.PutUint64(generation, binary.LittleEndian.Uint64(head[generationOffset:])+1)
	if _, err := f.WriteAt(generation, generationOffset); err != nil {
		return fmt.Errorf("GPU budget %s: %w", r.dir, err)
	}
	return nil
}

// encode returns the bytes of the limits file.
func (l Limits) encode() ([]byte, error) {
	if n := len(l.Devices); n == 0 || n > MaxDevices {
		return nil, fmt.Errorf("field Devices has %d entries, must have 1 to %d", n, MaxDevices)
	}
	raw := make([]byte, limitsSize)
	binary.LittleEndian.PutUint64(raw, limitsMagic)
	binary.LittleEndian.PutUint32(raw[8:], Version)
	binary.LittleEndian.PutUint32(raw[12:], uint32(len(l.Devices)))
	if l.ManagedFree {
		binary.LittleEndian.PutUint32(raw[16:], flagManagedFree)
	}
	seen := make(map[string]bool, len(l.Devices))
	for i, d := range l.Devices {
		uuid, err := parseUUID(d.UUID)
		if err != nil {
			return nil, fmt.Errorf("field Devices[%d].UUID: %w", i, err)
		}
		if seen[string(uuid)] {
			return nil, fmt.Errorf("field Devices[%d].UUID %s is there twice, must be unique", i, d.UUID)
		}
		seen[string(uuid)] = true
		if d.ComputeMilli < 1 || d.ComputeMilli > 1000 {
			return nil, fmt.Errorf("field Devices[%d].ComputeMilli is %d, must be 1 to 1000", i, d.ComputeMilli)
		}
		entry := raw[limitsHeader+i*limitsEntry:]
		copy(entry, uuid)
		binary.LittleEndian.PutUint64(entry[16:], d.MemoryBytes)
		binary.LittleEndian.PutUint64(entry[24:], d.ContextBytes)
		binary.LittleEndian.PutUint32(entry[32:], d.ComputeMilli)
	}
	return raw, nil
}

// parseUUID reads GPU-8-4-4-4-12 and MIG-8-4-4-4-12.
func parseUUID(s string) ([]byte, error) {
	kind, rest, _ := strings.Cut(s, "-")
	raw, err := hex.DecodeString(strings.ReplaceAll(rest, "-", ""))
	if (kind != "GPU" && kind != "MIG") || err != nil || len(raw) != 16 || strings.Count(rest, "-") != 4 {
		return nil, fmt.Errorf("%q is not a UUID as NVML writes it (GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)", s)
	}
	return raw, nil
}

// replace writes a file under another name and renames it, so that no reader sees
// a part of it.
func replace(path string, content []byte, mode os.FileMode) error {
	next := path + ".next"
	if err := os.WriteFile(next, content, mode); err != nil {
		return err
	}
	if err := os.Chmod(next, mode); err != nil { // against the umask
		return err
	}
	return os.Rename(next, path)
}
