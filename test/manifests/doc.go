// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests holds no code: its tests apply the folder manifests to a
// real API server and record, in transcripts under testdata, what that server
// then says to whom. A transcript is the specification of every sentence that a
// user may read. Rewrite them with
//
//	go test ./test/manifests -rewrite
//
// and review the difference.
//
// The tests never look at a policy's text, only at what it does; no node and no
// scheduler runs.
package manifests
