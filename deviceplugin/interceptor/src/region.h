// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// The two files that a container shares with the node agent. Their layout is
// the contract with the Go package beside this folder (region.go), checked
// byte for byte by its test. All integers are little-endian.
//
//   limits  root-owned, read-only in the container: what it may use
//   usage   writable: who uses how much, one slot per process
//
// There is no total to keep: what a container uses is the sum over the slots.
// A process only ever writes its own slot, so a SIGKILL at any instant leaves
// nothing to repair but a slot whose owner is gone, and any process may take
// that slot back as a whole.

#ifndef FAIRSLICE_REGION_H
#define FAIRSLICE_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FS_LIMITS_MAGIC 0x31544d494c4c5346ull // "FSLLIMT1"
#define FS_USAGE_MAGIC 0x3145474153554c46ull  // "FLUSAGE1"
#define FS_REGION_VERSION 1u
#define FS_MAX_DEVICES 16
#define FS_MAX_SLOTS 1024
#define FS_UNLIMITED UINT64_MAX

enum { FS_FLAG_MANAGED_FREE = 1u << 0 }; // managed memory is not charged

struct fs_limit {
	uint8_t uuid[16];               // all zero: the device whose CUDA ordinal is this index
	_Atomic uint64_t memory_bytes;  // FS_UNLIMITED: no limit. May be changed while containers run
	_Atomic uint64_t context_bytes; // charged per context
	_Atomic uint32_t compute_milli; // 1 to 1000; 1000 is never throttled
	uint32_t reserved0;
	uint8_t reserved[24];
};

struct fs_limits {
	uint64_t magic;
	uint32_t version;
	uint32_t device_count;
	uint32_t flags;
	uint32_t reserved0;
	uint8_t reserved[40];
	struct fs_limit device[FS_MAX_DEVICES];
};

// Counters of one device that outlive the processes that caused them.
struct fs_device_state {
	_Atomic uint64_t refusals;
	_Atomic uint64_t refused_bytes;
	_Atomic uint64_t throttled_ns;
	_Atomic uint64_t busy_ns;     // measured GPU time of throttled launches
	_Atomic uint64_t next_launch; // CLOCK_MONOTONIC ns before which nobody launches
	uint8_t reserved[24];
};

struct fs_amount {
	_Atomic uint64_t pending; // asked for, not yet granted
	_Atomic uint64_t used;    // granted
};

struct fs_slot {
	_Atomic uint64_t owner; // identity of the process, 0 when free (process.c)
	_Atomic uint32_t pid;   // as the container sees it, for people and for NVML's lists
	uint32_t reserved0;
	uint8_t reserved[48];
	struct fs_amount device[FS_MAX_DEVICES];
};

struct fs_usage {
	uint64_t magic;
	uint32_t version;
	uint32_t slot_count;
	_Atomic uint64_t generation; // raised by the agent when it empties the slots
	_Atomic uint64_t slots_high; // no slot at or above this index was ever claimed
	uint8_t reserved[32];
	struct fs_device_state device[FS_MAX_DEVICES];
	uint8_t pad[4096 - 64 - 64 * FS_MAX_DEVICES];
	struct fs_slot slot[FS_MAX_SLOTS];
};

_Static_assert(sizeof(struct fs_limit) == 64, "limits entry");
_Static_assert(sizeof(struct fs_limits) == 1088, "limits file");
_Static_assert(sizeof(struct fs_slot) == 320, "slot");
_Static_assert(sizeof(struct fs_usage) == 4096 + 320 * FS_MAX_SLOTS, "usage file");

#endif
