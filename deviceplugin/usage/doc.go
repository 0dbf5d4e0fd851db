// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package usage attributes the memory of a GPU to the containers that hold a part
// of it: one Sample per container and card, whatever the number of its devices, its
// resources and its processes.
//
//   - U1: the sum of all samples and of what is foreign is the sum of what the driver
//     lists. No figure is given to two containers, none is divided among them.
//   - U2: a process belongs to the container that its cgroup names, and to nobody
//     else; its devices say nothing about it.
//   - U3: a process that is in no container with a part of this card is foreign: of
//     the host, of another runtime, or of a pod that uses a card which it was not given.
//   - U4: use that the driver does not tell is flagged, not guessed.
//
// Units are bytes. The package reads no clock, no file and no API; Directory is
// safe for concurrent use.
package usage
