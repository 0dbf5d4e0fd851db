// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package publish writes what the device plugin knows into the API: labels and
// inventory on its own node, and the corrected GPU assignment on pods of that
// node. Both are merge patches of our own keys only, sent when something differs,
// never on a timer's account alone: there is no heartbeat to go stale.
//
// It needs get and patch of nodes, and patch of pods. Whatever the API server
// refuses is logged and tried again later, with growing pauses; nothing else of
// the plugin waits for it.
package publish
