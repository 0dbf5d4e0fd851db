// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubelet reads what the kubelet of this node has recorded: which
// container holds which devices, and which devices it knows.
//
// There are two sources. The checkpoint file of the device manager is local,
// names pods by UID and includes plain init containers; it also keeps pods that
// ended until the next admission. The PodResources API lists active pods only,
// by name, without plain init containers. The checkpoint may be read while the
// kubelet waits for us in Allocate; the API must not be called then.
//
// The package decides nothing and writes nothing.
package kubelet
