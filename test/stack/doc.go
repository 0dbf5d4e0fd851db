// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package stack installs Fairslice on a cluster of package bed the way a user
// does: the manifests are applied with kubectl, the control plane runs as its
// own process with the rights of its service account, and the stock
// kube-scheduler gets the shipped configuration with the extender's address.
// The demo and the cluster suites share it.
//
// It decides nothing and checks nothing by itself; package check does that.
package stack
