// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster holds the suite that runs Fairslice with the real
// kube-apiserver, etcd, kube-controller-manager and stock kube-scheduler, on
// nodes simulated by kwok. Each test says what must hold for a user. The suite
// starts one cluster; tests take turns and clean up after themselves.
package cluster
