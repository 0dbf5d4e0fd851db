// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package interceptor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const testUUID = "GPU-fa12511c-e000-4000-8000-000000000000"

func oneDevice() Limits {
	return Limits{Devices: []DeviceLimit{{UUID: testUUID, MemoryBytes: 1 << 30, ComputeMilli: 250}}}
}

// TestLayoutEqualsTheHeader compiles src/region.h and compares offsets and sizes.
func TestLayoutEqualsTheHeader(t *testing.T) {
	const program = `
#include <stdio.h>
#include <stddef.h>
#include "region.h"
#define P(x) printf("%zu ", (size_t)(x))
int main(void) {
	P(FS_LIMITS_MAGIC); P(FS_USAGE_MAGIC); P(FS_REGION_VERSION); P(FS_MAX_DEVICES); P(FS_MAX_SLOTS);
	P(sizeof(struct fs_limits)); P(sizeof(struct fs_usage));
	P(offsetof(struct fs_limits, device)); P(sizeof(struct fs_limit));
	P(offsetof(struct fs_limit, memory_bytes)); P(offsetof(struct fs_limit, context_bytes)); P(offsetof(struct fs_limit, compute_milli));
	P(offsetof(struct fs_limits, device_count)); P(offsetof(struct fs_limits, flags)); P(FS_FLAG_MANAGED_FREE);
	P(offsetof(struct fs_usage, generation)); P(offsetof(struct fs_usage, slots_high));
	P(offsetof(struct fs_usage, device)); P(sizeof(struct fs_device_state)); P(offsetof(struct fs_device_state, throttled_ns)); P(offsetof(struct fs_device_state, busy_ns));
	P(offsetof(struct fs_usage, slot)); P(sizeof(struct fs_slot)); P(offsetof(struct fs_slot, pid)); P(offsetof(struct fs_slot, device)); P(offsetof(struct fs_amount, used));
	return 0;
}`
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-std=gnu11", "-Isrc", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(limitsMagic, usageMagic, Version, MaxDevices, MaxProcesses, limitsSize, usageSize,
		limitsHeader, limitsEntry, 16, 24, 32, 12, 16, flagManagedFree, generationOffset, slotsHighOffset,
		usageHeader, usageCounters, 16, 24, slotsOffset, slotSize, 8, slotHeader, 8)
	if got := strings.Join(strings.Fields(string(out)), " "); got != want {
		t.Errorf("src/region.h and region.go differ\n  C %s\n Go %s", got, want)
	}
}

func TestBadLimitsAreNamed(t *testing.T) {
	change := func(f func(*Limits)) Limits {
		l := oneDevice()
		f(&l)
		return l
	}
	for want, l := range map[string]Limits{
		"field Devices has 0 entries, must have 1 to 16":  change(func(l *Limits) { l.Devices = nil }),
		"field Devices has 17 entries, must have 1 to 16": change(func(l *Limits) { l.Devices = make([]DeviceLimit, 17) }),
		`field Devices[0].UUID: "0" is not a UUID`:        change(func(l *Limits) { l.Devices[0].UUID = "0" }),
		`field Devices[0].UUID: "GPU-1234" is not`:        change(func(l *Limits) { l.Devices[0].UUID = "GPU-1234" }),
		"field Devices[0].ComputeMilli is 0, must be":     change(func(l *Limits) { l.Devices[0].ComputeMilli = 0 }),
		"field Devices[0].ComputeMilli is 1001, must be":  change(func(l *Limits) { l.Devices[0].ComputeMilli = 1001 }),
		"is there twice, must be unique":                  change(func(l *Limits) { l.Devices = append(l.Devices, l.Devices[0]) }),
	} {
		dir := filepath.Join(t.TempDir(), "r")
		_, err := Create(dir, l)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: something was written", want)
		}
	}
}

// TestFilesForAnyUser guards against HAMi #777 and #1090: whatever the umask, any
// uid reads the limits and writes the usage, and only the owner changes limits.
func TestFilesForAnyUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	if _, err := Create(dir, oneDevice()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{LimitsFile: 0o644, UsageFile: 0o666} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", name, info.Mode().Perm(), want, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.next")); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	if _, err := Open(dir); err == nil {
		t.Error("opened what is not there")
	}
	if _, err := Create(dir, oneDevice()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
	raw, _ := os.ReadFile(filepath.Join(dir, UsageFile))
	raw[8] = 9
	if err := os.WriteFile(filepath.Join(dir, UsageFile), raw, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "file usage has version 9, must be 1") {
		t.Errorf("got %v", err)
	}
}

func TestSetLimitsKeepsDevices(t *testing.T) {
	r, err := Create(filepath.Join(t.TempDir(), "r"), oneDevice())
	if err != nil {
		t.Fatal(err)
	}
	l := oneDevice()
	l.Devices[0].MemoryBytes = 2 << 30
	if err := r.SetLimits(l); err != nil {
		t.Fatal(err)
	}
	if u, err := r.Usage(); err != nil || u[0].LimitBytes != 2<<30 {
		t.Errorf("%+v %v", u, err)
	}
	l.Devices[0].UUID = "GPU-fa12511c-e000-4000-8000-000000000001"
	if err := r.SetLimits(l); err == nil {
		t.Error("another GPU was accepted")
	}
	l.Devices = append(l.Devices, oneDevice().Devices...)
	if err := r.SetLimits(l); err == nil {
		t.Error("another number of GPUs was accepted")
	}
}

// TestUsageOfAnySize: a container may let its usage file grow as it likes; who reads
// it takes no more memory for that.
func TestUsageOfAnySize(t *testing.T) {
	r, err := Create(filepath.Join(t.TempDir(), "r"), oneDevice())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	if err := os.Truncate(filepath.Join(r.dir, UsageFile), size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	u, err := r.Usage()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || len(u) != 1 || took > size/8 {
		t.Errorf("%+v, error %v, %d bytes of memory taken", u, err, took)
	}
}

// FuzzDecodeUsage: a container may write anything into its usage file.
func FuzzDecodeUsage(f *testing.F) {
	good, err := oneDevice().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, []byte("FLUSAGE1"), uint64(1))
	f.Add(good[:100], make([]byte, 64), uint64(1<<63))
	f.Fuzz(func(t *testing.T, limits, head []byte, at uint64) {
		usage := make([]byte, usageSize)
		copy(usage[at%usageSize:], head)
		copy(usage, []byte{0x46, 0x4c, 0x55, 0x53, 0x41, 0x47, 0x45, 0x31})
		devices, err := decodeUsage(limits, usage)
		if err == nil && len(devices) > MaxDevices {
			t.Errorf("%d devices", len(devices))
		}
		for _, d := range devices {
			if len(d.Processes) > MaxProcesses || d.Throttled < 0 || d.Busy < 0 {
				t.Errorf("%+v", d)
			}
		}
	})
}
