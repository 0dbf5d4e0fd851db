// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"sigs.k8s.io/yaml"
)

// maxProcesses that a file may list, and its size in bytes.
const (
	maxProcesses      = 4096
	maxProcessesBytes = 1 << 20
)

// FileProcess is one entry of a profile's file of processes.
type FileProcess struct {
	// GPU is the index of the card.
	GPU int `json:"gpu"`
	// PID as the host has it.
	PID uint32 `json:"pid"`
	// UsedMiB of the card's memory.
	UsedMiB uint64 `json:"usedMiB,omitempty"`
	// Unknown lets the driver not tell how much is used.
	Unknown bool `json:"unknown,omitempty"`
}

// ParseProcesses reads a list of FileProcess strictly. It refuses entries that no
// driver could report on a machine of that many cards.
func ParseProcesses(raw []byte, cards int) ([]FileProcess, error) {
	if len(raw) > maxProcessesBytes {
		return nil, fmt.Errorf("the list of processes has %d bytes, at most %d are allowed", len(raw), maxProcessesBytes)
	}
	var list []FileProcess
	if err := yaml.UnmarshalStrict(raw, &list); err != nil {
		return nil, fmt.Errorf("the list of processes is not the expected YAML: %w", err)
	}
	if len(list) > maxProcesses {
		return nil, fmt.Errorf("the list has %d processes, at most %d are allowed", len(list), maxProcesses)
	}
	for i, p := range list {
		switch {
		case p.GPU < 0 || p.GPU >= cards:
			return nil, fmt.Errorf("process %d has gpu %d, must be from 0 to %d", i, p.GPU, cards-1)
		case p.PID == 0:
			return nil, fmt.Errorf("process %d has pid 0, must be above", i)
		case p.UsedMiB > maxSimulatedMiB:
			return nil, fmt.Errorf("process %d has usedMiB %d, must be from 0 to %d", i, p.UsedMiB, maxSimulatedMiB)
		}
	}
	return list, nil
}

// readProcesses lets each card's processes be those of the file as well.
func (s *Simulation) readProcesses(file string) {
	for index, c := range s.cards {
		c.processes.fromFile = func() ([]SimulatedProcess, error) {
			raw, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			list, err := ParseProcesses(raw, len(s.cards))
			var out []SimulatedProcess
			for _, p := range list {
				if p.GPU == index {
					out = append(out, SimulatedProcess{PID: p.PID, UsedMiB: p.UsedMiB, Unknown: p.Unknown})
				}
			}
			return out, err
		}
	}
}
