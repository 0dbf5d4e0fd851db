// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package topology lists the sets of nodes in which a gang or a sub-group may
// be placed, best first: domains of the preferred level that can hold it, the
// fullest first, then wider ones up to the required level.
//
// It counts room and promises nothing: the caller places the pods for real in
// one set after the other and takes the first that works. Counts include room
// that is being released.
package topology
