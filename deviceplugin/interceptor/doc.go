// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package interceptor prepares and reads the GPU budget of a container that runs
// under libfairslice.so, the C library in src/.
//
// A budget is a directory of two files, the region: limits, owned by root and
// mounted read-only, says what the container may use of each GPU; usage, mounted
// writable, holds one slot per process of the container and counters. The library
// grants and accounts; this package only writes limits, empties slots when a
// container starts again, and reads. Layout and version are fixed by
// src/region.h, and a test holds the two against each other.
//
// Units: memory in bytes, compute in thousandths of a GPU, time in nanoseconds.
// What a container uses is the sum over its slots; no total is kept anywhere.
//
// The package never decides a limit, never maps a PID to a host process, and never
// kills anything. A limit held by the library is a courtesy between cooperating
// programs: a static binary or a raw ioctl goes past it (docs/interceptor.md).
package interceptor
