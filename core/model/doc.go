// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package model holds the cluster that decisions are made on: nodes with their
// GPUs, the queue tree, topologies, workloads and pods, kept up to date by
// events and changed in what-if work under an undo journal.
//
// Units: thousandths of a core, bytes of main memory, thousandths of a GPU, MiB
// of GPU memory, nanoseconds. It decides nothing and knows nothing of
// Kubernetes.
package model
