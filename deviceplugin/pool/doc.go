// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package pool keeps the account of what is taken of each GPU of one node and
// derives from it which device IDs of each resource can still be handed
// out. A whole GPU, its slices and its GiB are three views of one card: what
// one resource takes, the other two lose. A MIG instance is a card of its own
// here, and is handed out whole, as a device of one kind alone.
//
// Units. Everything is exact integer arithmetic in hundredths of a MiB, so that
// a slice (one hundredth of the card's memory) and a GiB have no rounding:
//
//	card   100 × MemoryMiB
//	slice  MemoryMiB
//	GiB    100 × 1024
//
// Device IDs. "<gpu>" is the whole card or instance, "<gpu>-<n>" its slices (n from 0 to 99)
// and GiB (n from 0 to ⌊MemoryMiB/1024⌋−1); <gpu> is a short form of the UUID
// (see ShortIDs). The same ID in two resources means two different devices.
//
// Invariants, for every sequence of calls to Take and Drop:
//
//   - P1: the units held of a card never exceed the card.
//   - P2: all healthy IDs of one resource that nobody holds can be taken, one by
//     one or together.
//   - P3: an ID that is held is unhealthy only if its whole card is, never
//     because of its own use or its neighbours'.
//   - P4: the healthy IDs depend on what is held, not on how it came about.
//
// Only Replace, which repeats what the kubelet has recorded, may exceed a card
// (its usable memory was lowered while pods ran); then nothing of it is free.
//
// The package holds no clock, no goroutine and no lock, and never talks to
// anyone.
package pool
