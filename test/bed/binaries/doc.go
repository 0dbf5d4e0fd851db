// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries provides the real programs that the test bed runs: etcd,
// the Kubernetes components, kwok, containerd and controller-gen.
//
// It builds them from the Go module proxy at the versions that the nested
// modules test/bed/tools and test/bed/tools/containerd pin, into a cache
// outside the checkout, keyed by everything that influences the result. A
// cached program costs one stat. It never downloads executables, never uses
// what happens to be on PATH, and never changes the checkout.
//
// Invariants: a program in the cache is complete (it is renamed into place);
// two processes that build at once wait for each other and build once; another
// version, Go release or recipe is another folder.
package binaries
