// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package nvml is the edge to the GPUs of a node: which there are, when one
// reports a fault, and whether one answers.
//
// There are two back ends behind one Library: the NVIDIA driver's own library,
// opened at run time (Open), and simulated machines described in YAML
// (Simulate), built on go-nvml's mocks. Both run the same code above go-nvml's
// interface; only that interface's implementation differs.
//
// Units are MiB, and thousandths of a card's compute for MIG instances, which are
// listed with their card. The package never decides whether a GPU is healthy, never
// changes a setting of a GPU, and one GPU that does not answer never hides the
// others.
package nvml
