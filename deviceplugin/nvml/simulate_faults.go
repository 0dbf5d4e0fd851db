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

// ParseFaults reads a strict list of indexes of cards that have fallen off the bus.
func ParseFaults(raw []byte, cards int) ([]int, error) {
	if len(raw) > maxProfileBytes {
		return nil, fmt.Errorf("the list of lost GPUs has %d bytes, at most %d are allowed", len(raw), maxProfileBytes)
	}
	var lost []int
	if err := yaml.UnmarshalStrict(raw, &lost); err != nil {
		return nil, fmt.Errorf("the list of lost GPUs is not the expected YAML: %w", err)
	}
	for _, gpu := range lost {
		if gpu < 0 || gpu >= cards {
			return nil, fmt.Errorf("the list of lost GPUs has %d, must be from 0 to %d", gpu, cards-1)
		}
	}
	return lost, nil
}

// lostByFile says whether the profile's file names the card; one that cannot be
// read loses all cards, so that a typing error does not pass for health.
func (s *Simulation) lostByFile(c *simulatedCard) bool {
	if s.faultsFile == "" {
		return false
	}
	raw, err := os.ReadFile(s.faultsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	var lost []int
	if err == nil {
		lost, err = ParseFaults(raw, len(s.cards))
	}
	if err != nil {
		return true
	}
	for _, gpu := range lost {
		if s.cards[gpu] == c {
			return true
		}
	}
	return false
}
