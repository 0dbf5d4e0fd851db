// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package plugin speaks the kubelet's device plugin protocol (v1beta1) for the
// resources of a node: one gRPC server and one registration for each.
//
// It decides nothing about GPUs: package match does. It owns the protocol's
// traps. Each start has its own socket names, because kubelet 1.37 refuses a
// path that it still holds; the kubelet deletes all sockets when it starts, so
// its socket is watched by inotify and by polling, and everything is served and
// registered anew; requests may have 16 MiB; a panic in a handler is an error of
// that call.
//
// No call to the network is made while the kubelet waits for Allocate or
// GetPreferredAllocation, because it holds up all pods of the node then. They
// wait a bounded time for the informer, which may lag behind the kubelet.
package plugin
