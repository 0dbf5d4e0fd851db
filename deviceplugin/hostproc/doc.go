// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostproc tells in which container of which pod a process of the host
// runs, and ends one without ever hitting another.
//
// ParseCgroup and ParseStart are pure; they know the paths that the kubelet, and
// containerd, CRI-O and Docker under it, make for cgroup v1 and v2, by systemd or
// directly:
//
//	/kubepods/burstable/pod<uid>/<id>                              cgroupfs
//	/kubepods/burstable/pod<uid>/crio-<id>                         cgroupfs, CRI-O
//	…/kubepods-burstable-pod<uid with _>.slice/cri-containerd-<id>.scope   systemd
//	…/kubepods-burstable-pod<uid with _>.slice/crio-<id>.scope[/…]         CRI-O
//	…/kubepods-burstable-pod<uid with _>.slice/docker-<id>.scope           Docker
//	…/kubepods-burstable-pod<uid with _>.slice:cri-containerd:<id>         mixed drivers
//
// Invariants: the outermost pod of a path counts, so that no process can name
// another by making cgroups of its own; a PID is believed only together with its
// start time, because PIDs are used again. It needs the host's PID namespace and
// never reads anything but /proc/<pid>/cgroup, stat and ns/pid.
package hostproc
