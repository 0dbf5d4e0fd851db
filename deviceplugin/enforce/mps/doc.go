// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package mps is the isolation level "mps": NVIDIA's Multi-Process Service holds
// each client process to memory and to a share of the multiprocessors.
//
// One control daemon per GPU, so that a fault, which takes all clients of a daemon
// with it, stays on one card. A daemon is started when the first container with a
// part of its GPU starts, is asked every few seconds whether it answers, and is
// started again, with back-off, when it does not. Its GPU is put into the compute
// mode EXCLUSIVE_PROCESS, so that a process that does not reach the daemon fails
// instead of running without a limit; where the mode cannot be set, or a client's
// fault has stopped the server, no container starts. Before a whole GPU is handed out, daemon and
// mode are taken back.
//
// Limits are set at the daemon, before a container starts. MPS knows them per
// client process and one default per server: a container's share is divided by the
// processes that its pod declares, and the server's default is the largest of its
// containers' values. Each container is told its own, lower one in its
// environment, which it could raise to the server's, never above. Where that is
// not enough, stack the interceptor below: it counts all processes of a container
// together.
//
// It never starts a container whose daemon does not answer, and never ends a
// daemon that has containers. Memory is in MiB, compute in percent.
package mps
