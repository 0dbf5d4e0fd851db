// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance holds tables of known answers as data files, and the
// tests that put them to package core. The files are facts about how another
// scheduler (NVIDIA KAI Scheduler 0.13) answers; where Fairslice answers
// otherwise on purpose, docs/differences.md says why.
//
// FAIRSLICE_CONFORMANCE_DIR names another folder to read the files from. The
// package holds no other code.
//
// Units in the files: GPUs in devices, cpuMilli in thousandths of a core,
// memoryBytes in bytes. −1 is unlimited; so is a limit that is left out.
package conformance
