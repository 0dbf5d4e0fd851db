// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package lint holds no code: its tests keep the promises of
// docs/architecture.md that no compiler keeps. Who may import whom and why, what
// core may not touch, that each package says what it is for, that files and
// functions stay readable, that generated files are current, that links in the
// documentation lead somewhere.
//
// They read the checkout, never the network, and know nothing of what the code
// does.
package lint
