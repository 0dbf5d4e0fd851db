// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is what users and components of Fairslice write into the
// Kubernetes API: the kinds Queue, PodGroup and Topology, and the names of
// labels, annotations, scheduling gates and resources with their value
// formats. It holds no behaviour beyond checking and encoding those values,
// and never imports another package of the project.
//
// +kubebuilder:object:generate=true
// +groupName=fairslice.io
package v1alpha1
