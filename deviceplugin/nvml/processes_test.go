// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

const whole = math.MaxUint32

func info(pid uint32, mib uint64) nvml.ProcessInfo {
	return nvml.ProcessInfo{Pid: pid, UsedGpuMemory: mib << 20, GpuInstanceId: whole, ComputeInstanceId: whole}
}

func unknown(pid uint32) nvml.ProcessInfo {
	return nvml.ProcessInfo{Pid: pid, UsedGpuMemory: math.MaxUint64, GpuInstanceId: whole, ComputeInstanceId: whole}
}

func TestUnionOfLists(t *testing.T) {
	instance := func(p nvml.ProcessInfo, n uint32) nvml.ProcessInfo {
		p.GpuInstanceId, p.ComputeInstanceId = n, 0
		return p
	}
	for _, tc := range []struct {
		name  string
		lists [][]nvml.ProcessInfo
		want  []Process
	}{
		{"nobody", [][]nvml.ProcessInfo{{}, {}}, []Process{}},
		{"in two lists once", [][]nvml.ProcessInfo{{info(7, 100)}, {info(7, 100)}}, []Process{{PID: 7, UsedBytes: 100 << 20}}},
		{"the larger figure", [][]nvml.ProcessInfo{{info(7, 100)}, {info(7, 120)}}, []Process{{PID: 7, UsedBytes: 120 << 20}}},
		{"~0 is unknown, never 2^64-1", [][]nvml.ProcessInfo{{unknown(7), info(8, 1)}}, []Process{{PID: 7, Unknown: true}, {PID: 8, UsedBytes: 1 << 20}}},
		{"one list knows", [][]nvml.ProcessInfo{{unknown(7)}, {info(7, 3)}}, []Process{{PID: 7, UsedBytes: 3 << 20}}},
		{"two MIG instances add up", [][]nvml.ProcessInfo{{instance(info(7, 3), 1), instance(info(7, 4), 2)}}, []Process{{PID: 7, UsedBytes: 7 << 20}}},
		{"one of two instances unknown", [][]nvml.ProcessInfo{{instance(info(7, 3), 1), instance(unknown(7), 2)}}, []Process{{PID: 7, UsedBytes: 3 << 20, Unknown: true}}},
		{"saturates", [][]nvml.ProcessInfo{{
			instance(nvml.ProcessInfo{Pid: 7, UsedGpuMemory: math.MaxUint64 - 1}, 1), instance(info(7, 4), 2),
		}}, []Process{{PID: 7, UsedBytes: math.MaxUint64}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, union(tc.lists)); diff != "" {
				t.Errorf("processes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestProcessesOfACard: from every list of the driver, and what they use shows as
// used memory of the card.
func TestProcessesOfACard(t *testing.T) {
	s := simulate(t, "a100-40gb")
	all, _ := s.GPUs()
	s.SetProcesses(1,
		SimulatedProcess{PID: 10, UsedMiB: 1000, In: []ListedIn{Compute, Graphics}},
		SimulatedProcess{PID: 11, UsedMiB: 200, In: []ListedIn{MPS}},
		SimulatedProcess{PID: 12, UsedMiB: 30, In: []ListedIn{Detailed}},
		SimulatedProcess{PID: 13, Unknown: true})
	got, err := s.Processes(all[1].UUID)
	if err != nil {
		t.Fatal(err)
	}
	want := []Process{{PID: 10, UsedBytes: 1000 << 20}, {PID: 11, UsedBytes: 200 << 20}, {PID: 12, UsedBytes: 30 << 20}, {PID: 13, Unknown: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if m, err := s.Memory(all[1].UUID); err != nil || m != (Memory{TotalMiB: 40960, UsedMiB: 1230}) {
		t.Errorf("memory %+v, %v", m, err)
	}
	if none, err := s.Processes(all[0].UUID); err != nil || len(none) != 0 {
		t.Errorf("processes of another card: %v, %v", none, err)
	}
}

// TestNoListIsAnError: "cannot say" is not "nobody".
func TestNoListIsAnError(t *testing.T) {
	s := simulate(t, "a100-40gb")
	all, _ := s.GPUs()
	s.SetUnlisted(0, true)
	if got, err := s.Processes(all[0].UUID); err == nil {
		t.Errorf("a driver without lists gives %v", got)
	}
	s.SetUnlisted(0, false)
	s.SetLost(0, true)
	if got, err := s.Processes(all[0].UUID); err == nil {
		t.Errorf("a lost card gives %v", got)
	}
}

// TestProtectedMemory: a confidential GPU may report it beside or instead of the
// usual figure.
func TestProtectedMemory(t *testing.T) {
	for _, tc := range []struct{ used, protected, want uint64 }{
		{5, 0, 5},
		{5, 3, 5},
		{3, 5, 5},
		{math.MaxUint64, 5, 5},
		{5, math.MaxUint64, 5},
		{math.MaxUint64, 0, math.MaxUint64},
		{math.MaxUint64, math.MaxUint64, math.MaxUint64},
	} {
		p := nvml.ProcessDetail_v1{Pid: 1, UsedGpuMemory: tc.used, UsedGpuCcProtectedMemory: tc.protected}
		if got := plain(nvml.ProcessDetailList{NumProcArrayEntries: 1, ProcArray: &p}); got[0].UsedGpuMemory != tc.want {
			t.Errorf("used %d, protected %d: %d, want %d", tc.used, tc.protected, got[0].UsedGpuMemory, tc.want)
		}
	}
}
