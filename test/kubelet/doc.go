// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet holds the suite that runs Fairslice whole: real control plane,
// stock kube-scheduler, and a real node with kubelet, containerd and the device
// plugin on a simulated machine of GPUs. It needs root, and runs with the build
// tag e2e (make e2e).
package kubelet
