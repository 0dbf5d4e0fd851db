// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

package enforce

import (
	"strings"
	"time"
)

// Meter is a Layer that measures.
type Meter interface {
	Layer
	// Measure tells what a container uses, by its ID; none if it has no limit of the
	// layer. What a container could write itself is not to be trusted.
	Measure(id string) ([]Measured, error)
}

// Measured is one container's account of one GPU, since the container was given it.
type Measured struct {
	UUID string
	// UsedBytes that the layer charges.
	UsedBytes uint64
	// Refusals counts allocations that were refused.
	Refusals uint64
	// Throttled is the time that its launches were held back.
	Throttled time.Duration
}

// SameUUID compares UUIDs whose prefix ("GPU-", "MIG-") may be missing.
func SameUUID(a, b string) bool { return bare(a) == bare(b) }

func bare(uuid string) string {
	return strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(uuid, "GPU-"), "MIG-"))
}
