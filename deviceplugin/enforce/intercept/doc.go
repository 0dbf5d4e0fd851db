// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package intercept is the isolation level "intercept": it mounts libfairslice.so,
// the file /etc/ld.so.preload that loads it, and the container's budget into each
// container that holds a part of a GPU.
//
// The library is not preloaded by an environment variable: a user could unset it,
// and musl would fail on it. Images that bring their own /etc/ld.so.preload lose
// that file's effect.
//
// On disk, under one state directory that the host sees at the same path:
//
//	lib/libfairslice-<hash>.so   the library, a new name for each content, so that
//	                             an upgrade leaves running containers their file
//	lib/ld.so.preload            names the library's path in a container
//	containers/<id>/             one budget (package interceptor) per container
package intercept
