// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package cgroup is the isolation level "cgroup": the driver itself (R615 and
// later) holds all processes of a container's control group to a limit of memory on
// each GPU, whatever they are linked with.
//
// The control group exists only after the runtime has made the container, and no
// process of the user's may run before the limit is set. So each container gets a
// CDI device of its own, whose one edit is an OCI createRuntime hook: the program
// "fairslice hook" with the container's limits as arguments. A container's user can
// change neither: both come from the kubelet's record of our answer. The hook finds
// the leaf control group of the container's first process, sets the limits by the
// driver's documented call nvmlDeviceSetMemoryLimits_v1 and reads them back. If
// anything fails the container is not started.
//
// Soft limits stay 0: they would be added to every ancestor, and only be taken away
// again if someone cleared them before the control group is removed.
//
// Not held by the driver: managed (UVM) memory, compute, bandwidth, GPUs in MIG
// mode. Limits are in bytes at the driver, in MiB elsewhere.
package cgroup
