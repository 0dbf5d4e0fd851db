// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package bed starts real Kubernetes clusters on this machine, for tests and for
// the demo: etcd, kube-apiserver, kube-controller-manager, the stock
// kube-scheduler, nodes simulated by kwok and, as root, real nodes with a
// kubelet, containerd and containers.
//
//	cluster, err := bed.Start(ctx, bed.Options{})
//	defer cluster.Stop()
//	err = cluster.StartKwok(ctx)
//	err = cluster.StartScheduler(ctx, bed.Scheduler{Config: yaml})
//	err = cluster.AddSimulatedNodes(ctx, bed.SimulatedNode{Name: "gpu-0", Allocatable: …})
//
// A cluster listens on free loopback ports, keeps everything it writes in one
// temporary folder and is thrown away at the end: etcd does not sync its disk,
// and Stop kills. Every component is a child process with a log file; Kill,
// Restart and Signal do to it what a bad day would.
//
// Users and rights are real: components have the identities and the RBAC roles
// that Kubernetes ships, and RESTConfig issues a client certificate for any
// user and groups, so that the rights of our manifests are tested too.
//
// What the package never does: it does not touch the machine's own containerd,
// kubelet or files outside its folder, uses no fixed port, downloads no
// executable (see package binaries), and knows nothing of GPUs or of Fairslice's
// annotations: callers decorate the nodes.
//
// Invariant: nothing outlives the program that started the cluster, however it
// ends. Children die with it by the kernel's parent-death signal, and a minder
// process (see minder.go), in its own session so that Ctrl-C does not reach it,
// then removes control groups and the folder. For this the package's init
// function turns a re-executed copy of the program into the minder.
//
// Units: seconds and milliseconds are time.Duration, amounts are Kubernetes
// quantities. Linux only.
package bed
