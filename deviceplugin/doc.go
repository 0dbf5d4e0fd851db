// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin is the node agent of Fairslice. It serves whole GPUs,
// slices (hundredths) and GiB of the GPUs of its node to the kubelet, from one
// pool; it steers the kubelet to the GPU that the control plane planned, and
// corrects the pod's annotation to what the kubelet recorded; it watches the
// GPUs' health; it publishes labels and an inventory on its node.
//
// It never places a pod, never evicts one, and keeps no state of its own: after
// a restart everything comes back from NVML, the kubelet and the API server.
//
// Parts, lower to higher: pool (account), health (state machine), nvml (edge to
// the GPUs), kubelet (edge to its records), match (which pod is it), enforce and
// cdispec (what a container gets), plugin (gRPC), publish (API). Run wires them.
//
// Units are MiB and thousandths of a GPU. See docs/deviceplugin.md.
package deviceplugin
