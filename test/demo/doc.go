// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Fairslice at work on this machine: a real control plane
// with the stock kube-scheduler, simulated GPU nodes and, as root, one real node
// with kubelet, containerd and the device plugin; a tree of queues; and a mixed
// set of pods. It announces what must come out, shows it happen, and ends with
// a table of who runs where on which GPU and who waits and why.
//
// Ctrl-C ends it and leaves nothing behind. With DEMO_EXIT=1 it ends by itself
// after the final table, with exit code 0 only if all came out as announced.
package main
