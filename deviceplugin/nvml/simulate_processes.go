// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ListedIn names a list of processes that a driver keeps.
type ListedIn int

// The lists.
const (
	Compute ListedIn = iota
	Graphics
	MPS
	Detailed
)

// SimulatedProcess is an entry in one or more lists of a simulated card.
type SimulatedProcess struct {
	PID     uint32
	UsedMiB uint64
	// Unknown reports ~0 instead of UsedMiB.
	Unknown bool
	// In names the lists; none means Compute.
	In []ListedIn
}

type simulatedProcesses struct {
	entries []SimulatedProcess
	refusal nvml.Return // SUCCESS unless the driver lists nothing
	// fromFile reads the entries of the profile's file; nil where there is none.
	fromFile func() ([]SimulatedProcess, error)
}

// all lists what uses the card; an error means that the driver does not tell.
func (p simulatedProcesses) all() ([]SimulatedProcess, nvml.Return) {
	if p.fromFile == nil || p.refusal != nvml.SUCCESS {
		return p.entries, p.refusal
	}
	more, err := p.fromFile()
	if err != nil {
		return nil, nvml.ERROR_UNKNOWN
	}
	return slices.Concat(p.entries, more), nvml.SUCCESS
}

// SetProcesses replaces what uses the card at the index.
func (s *Simulation) SetProcesses(index int, processes ...SimulatedProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards[index].processes.entries = slices.Clone(processes)
}

// SetUnlisted lets the card at the index refuse to list its processes, or not.
func (s *Simulation) SetUnlisted(index int, unlisted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards[index].processes.refusal = nvml.SUCCESS
	if unlisted {
		s.cards[index].processes.refusal = nvml.ERROR_NOT_SUPPORTED
	}
}

// usedBy sums the processes, once each.
func (s *Simulation) usedBy(on *simulatedProcesses) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, seen := uint64(0), map[uint32]bool{}
	entries, _ := on.all()
	for _, p := range entries {
		if !seen[p.PID] {
			sum += p.UsedMiB << 20
		}
		seen[p.PID] = true
	}
	return sum
}

// wholeCard stands for no GPU instance and no compute instance.
const wholeCard = 0xFFFFFFFF

type (
	processList = func() ([]nvml.ProcessInfo, nvml.Return)
	detailList  = func() (nvml.ProcessDetailList, nvml.Return)
)

// addProcesses sets the four lists of a card, or of one of its instances.
func (s *Simulation) addProcesses(compute, graphics, mps *processList, details *detailList, c *simulatedCard, on *simulatedProcesses, gpuInstance uint32) {
	list := func(l ListedIn) processList {
		return func() ([]nvml.ProcessInfo, nvml.Return) { return s.list(c, on, gpuInstance, l) }
	}
	*compute, *graphics, *mps = list(Compute), list(Graphics), list(MPS)
	*details = func() (nvml.ProcessDetailList, nvml.Return) {
		entries, ret := list(Detailed)()
		details := make([]nvml.ProcessDetail_v1, 0, len(entries))
		for _, p := range entries {
			details = append(details, nvml.ProcessDetail_v1{
				Pid: p.Pid, UsedGpuMemory: p.UsedGpuMemory, GpuInstanceId: p.GpuInstanceId, ComputeInstanceId: p.ComputeInstanceId,
			})
		}
		out := nvml.ProcessDetailList{NumProcArrayEntries: uint32(len(details))}
		if len(details) > 0 {
			out.ProcArray = &details[0]
		}
		return out, ret
	}
}

func (s *Simulation) list(c *simulatedCard, on *simulatedProcesses, gpuInstance uint32, l ListedIn) ([]nvml.ProcessInfo, nvml.Return) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.lost || s.lostByFile(c) {
		return nil, nvml.ERROR_GPU_IS_LOST
	}
	computeInstance := uint32(0)
	if gpuInstance == wholeCard {
		computeInstance = wholeCard
	}
	var out []nvml.ProcessInfo
	entries, ret := on.all()
	for _, p := range entries {
		if !slices.Contains(p.In, l) && (len(p.In) > 0 || l != Compute) {
			continue
		}
		used := p.UsedMiB << 20
		if p.Unknown {
			used = unavailable
		}
		out = append(out, nvml.ProcessInfo{Pid: p.PID, UsedGpuMemory: used, GpuInstanceId: gpuInstance, ComputeInstanceId: computeInstance})
	}
	return out, ret
}
