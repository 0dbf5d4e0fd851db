// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package cdispec writes the node's GPUs as a Container Device Interface
// specification: kind fairslice.io/gpu, one device per GPU, named by its UUID.
//
// The file is written once, when the plugin starts, and not per container: a
// runtime reloads its CDI cache asynchronously, so what was written just before a
// container starts may not be seen. The temporary file lies in the same
// directory, since runtimes do not notice a file renamed in from elsewhere.
//
// The specification holds device nodes, no driver libraries: where the images
// do not bring them, NVIDIA's container toolkit adds them, by its runtime or by
// the specification nvidia.com/gpu that it generates.
package cdispec
