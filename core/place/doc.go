// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package place chooses the node for a pod among those that fit. Preferences
// are ranked, not weighed: the nominated node; the roomier of the topology
// domains that a gang has to span; a node where a share joins a GPU in use; a
// node with room now; a node without GPUs for pods that want none; the fullest
// (pack) or freest (spread) node; the lower name.
//
// With the Fill policy a GPU node's fullness is replaced by how much less its
// GPUs are worth to the mix of pods that there is (package pack), and what a
// share joins no longer matters by itself.
//
// Each shape keeps a tournament tree over all nodes, brought up to date from
// the cluster's log of touched nodes, so that one placement costs the
// logarithm of the number of nodes.
package place
