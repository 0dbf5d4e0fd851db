// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package check compares the three accounts of who holds which GPU: the API
// server's (the assignments bound with the pods), the control plane's ledger,
// and the kubelets' device managers. It finds what was lost, booked twice or
// told differently. It only reads, and knows nothing of how decisions are made.
package check
