// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// Simulation is a simulated machine whose faults a test can set.
type Simulation struct {
	Library
	mu     sync.Mutex
	cards  []*simulatedCard
	events chan nvml.EventData
	// faultsFile is the profile's.
	faultsFile string
}

type simulatedCard struct {
	device    *server.Device
	lost      bool
	action    nvml.DeviceGpuRecoveryAction
	processes simulatedProcesses
	instances []*simulatedInstance
}

// Simulate builds the machine that the profile describes. The UUIDs derive from
// the seed (use the node's name) and the index, so that a restart finds the same
// cards and two nodes never share one.
func Simulate(p Profile, seed string) (*Simulation, error) {
	s := &Simulation{faultsFile: p.FaultsFile, events: make(chan nvml.EventData, 64)}
	var configs []gpus.Config
	for _, g := range p.GPUs {
		c := bases[g.Base]
		c.Name, c.MemoryMB = g.Model, uint64(g.MemoryMiB)
		configs = append(configs, gpus.Multiple(g.Count, c)...)
	}
	version := p.DriverVersion
	if version == "" {
		version = "550.54.15"
	}
	srv, err := server.New(server.WithGPUs(configs...), server.WithDriverVersion(version), server.WithNVMLVersion("12."+version))
	if err != nil {
		return nil, fmt.Errorf("simulating %s: %w", p.Name, err)
	}
	next := 0
	for _, g := range p.GPUs {
		for n := range g.Count {
			c := s.add(srv.Devices[next].(*server.Device), g, n, simulatedUUID(seed, next))
			s.addInstances(c, g, seed, next)
			next++
		}
	}
	if p.ProcessesFile != "" {
		s.readProcesses(p.ProcessesFile)
	}
	s.install(srv)
	s.Library, err = start(srv, "the simulation", true)
	return s, err
}

const cardPrefix = "GPU-"

// simulatedUUID is a hash in the form of a UUID.
func simulatedUUID(seed string, numbers ...int) string {
	name := []byte(seed)
	for _, n := range numbers {
		name = fmt.Appendf(name, "/%d", n)
	}
	h := sha256.Sum256(name)
	return fmt.Sprintf(cardPrefix+"%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// add completes what go-nvml's mock leaves out of a device.
func (s *Simulation) add(d *server.Device, g ProfileGPU, n int, uuid string) *simulatedCard {
	const mib = 1 << 20
	c := &simulatedCard{device: d}
	s.cards = append(s.cards, c)
	d.UUID = uuid
	d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		if s.isLost(c) {
			return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST
		}
		used := uint64(g.UsedMiB+g.ReservedMiB)*mib + s.usedBy(&c.processes)
		return nvml.Memory{Total: uint64(g.MemoryMiB) * mib, Used: used, Free: uint64(g.MemoryMiB)*mib - used}, nvml.SUCCESS
	}
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		if s.isLost(c) {
			return nvml.Memory_v2{}, nvml.ERROR_GPU_IS_LOST
		}
		used := uint64(g.UsedMiB)*mib + s.usedBy(&c.processes)
		return nvml.Memory_v2{
			Total: uint64(g.MemoryMiB) * mib, Reserved: uint64(g.ReservedMiB) * mib, Used: used,
			Free: uint64(g.MemoryMiB-g.ReservedMiB)*mib - used,
		}, nvml.SUCCESS
	}
	s.addProcesses(&d.GetComputeRunningProcessesFunc, &d.GetGraphicsRunningProcessesFunc,
		&d.GetMPSComputeRunningProcessesFunc, &d.GetRunningProcessDetailListFunc, c, &c.processes, wholeCard)
	d.GetNumaNodeIdFunc = func() (int, nvml.Return) {
		switch len(g.NUMA) {
		case 0:
			return 0, nvml.ERROR_NOT_SUPPORTED
		case 1:
			return g.NUMA[0], nvml.SUCCESS
		default:
			return g.NUMA[n], nvml.SUCCESS
		}
	}
	d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	d.GetFieldValuesFunc = func(want []nvml.FieldValue) nvml.Return {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range want {
			want[i].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			if want[i].FieldId == nvml.FI_DEV_GET_GPU_RECOVERY_ACTION {
				want[i].NvmlReturn, want[i].Value[0] = uint32(nvml.SUCCESS), byte(c.action)
			}
		}
		return nvml.SUCCESS
	}
	return c
}

// install adds events, and cards that have fallen off the bus, to the server.
func (s *Simulation) install(srv *server.Server) {
	srv.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i < 0 || i >= len(s.cards) {
			return nil, nvml.ERROR_INVALID_ARGUMENT
		}
		if s.isLost(s.cards[i]) {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return s.cards[i].device, nvml.SUCCESS
	}
	srv.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		for _, c := range s.cards {
			if c.device.UUID != uuid {
				continue
			}
			if s.isLost(c) {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return c.device, nvml.SUCCESS
		}
		if c, i := s.instance(uuid); i != nil && !s.isDestroyed(i) {
			if s.isLost(c) {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return i.device, nvml.SUCCESS
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	srv.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{WaitFunc: s.wait, FreeFunc: func() nvml.Return { return nvml.SUCCESS }}, nvml.SUCCESS
	}
}

func (s *Simulation) wait(millis uint32) (nvml.EventData, nvml.Return) {
	t := time.NewTimer(time.Duration(millis) * time.Millisecond)
	defer t.Stop()
	select {
	case e := <-s.events:
		return e, nvml.SUCCESS
	case <-t.C:
		return nvml.EventData{}, nvml.ERROR_TIMEOUT
	}
}

func (s *Simulation) isLost(c *simulatedCard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.lost || s.lostByFile(c)
}

// RaiseXID lets the card at the index report a critical error.
func (s *Simulation) RaiseXID(index int, xid uint64) {
	s.events <- nvml.EventData{Device: s.cards[index].device, EventType: nvml.EventTypeXidCriticalError, EventData: xid}
}

// SetLost lets the card at the index fall off the bus, or come back.
func (s *Simulation) SetLost(index int, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards[index].lost = lost
}

// SetNeedsReset lets the card at the index answer and ask for a reset, or not.
func (s *Simulation) SetNeedsReset(index int, needs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards[index].action = nvml.GPU_RECOVERY_ACTION_NONE
	if needs {
		s.cards[index].action = nvml.GPU_RECOVERY_ACTION_GPU_RESET
	}
}
