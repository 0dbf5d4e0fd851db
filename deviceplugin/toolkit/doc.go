// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package toolkit reads of the configuration of NVIDIA's container toolkit
// whether containers can reach GPUs that they were not given. The toolkit's own
// default lets any image choose its GPUs by an environment variable.
//
// It changes nothing and runs nothing.
package toolkit
