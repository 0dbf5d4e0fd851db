// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package fit says whether a pod may and can run on a node: the node's
// predicates, its room, and which of its GPUs serve each claim. It changes
// nothing and prefers nothing: choosing among nodes that fit is package place.
package fit
