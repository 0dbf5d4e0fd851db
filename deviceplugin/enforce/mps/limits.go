// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"fmt"

	"github.com/fairslice/fairslice/deviceplugin/enforce"
)

// limits are what one client process may use; the zero value is not a limit.
type limits struct {
	memoryMiB int64
	percent   int64 // of the multiprocessors' threads, 1 to 100
}

// processLimits divides a container's share of its one GPU among its processes,
// rounded down.
func processLimits(c enforce.Container) (limits, error) {
	if len(c.Shares) != 1 {
		return limits{}, fmt.Errorf("a container with parts of %d GPUs cannot be held by MPS, which reaches one GPU's daemon from a container: ask for a part of 1 GPU, or for nodes of another isolation level", len(c.Shares))
	}
	s, n := c.Shares[0], int64(max(1, c.Processes))
	l := limits{memoryMiB: s.MemoryMiB / n, percent: min(100, s.ComputeMilli/10/n)}
	if l.memoryMiB < 1 || l.percent < 1 {
		return limits{}, fmt.Errorf("a share of %d MiB and %d thousandths of a GPU leaves nothing for each of %d processes", s.MemoryMiB, s.ComputeMilli, n)
	}
	return l, nil
}

// largest is the server's default: the least that holds none of the containers
// to less than its own limit.
func largest(a, b limits) limits {
	return limits{max(a.memoryMiB, b.memoryMiB), max(a.percent, b.percent)}
}
