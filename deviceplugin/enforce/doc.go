// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package enforce is the seam to what holds a container to its share of a GPU:
// each isolation level is a Layer. The layer is chosen once for a node, and its
// level is published, so that a pod may demand a minimum.
//
// A layer acts at two moments. In Prepare, which the kubelet calls once in a
// container's life and whose answer it caches, the container is known by its
// devices alone. In Start, called before every start of the container, restarts
// included, its pod is known too. A layer never decides who gets which GPU.
//
// Memory is in MiB, compute in thousandths of a GPU.
package enforce
