// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package cordon reads which GPUs of a node a person has taken out of service, from
// the node's annotation fairslice.io/cordoned-gpus:
//
//	kubectl annotate node n1 fairslice.io/cordoned-gpus=GPU-fef8089b-…,3
//
// A cordoned GPU takes no new containers, whole and in parts; those that run stay.
// An entry that names no GPU of the node is reported and cancels none of the others.
// The package is pure.
package cordon
