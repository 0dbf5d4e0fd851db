// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: a machine with GPUs that exist only as numbers in a shared file.
// libcuda.so.1 and libnvidia-ml.so.1 are built on it. It keeps physical memory
// by device and process across processes, in pages of 2 MiB, and takes back
// what dead processes held, as the kernel driver does.
//
// Environment (or KEY=VALUE lines in the file that STANDIN_CONFIG names, by
// default /etc/fairslice/standin.conf; the environment wins):
//   STANDIN_STATE       the shared file (default /tmp/fairslice-standin)
//   STANDIN_GPUS        sizes in MiB, "40960,16384" (default "40960")
//   STANDIN_UUIDS       "GPU-…,GPU-…" (default made from the index)
//   STANDIN_POOL_CHUNK  MiB by which memory pools grow (default 2; drivers: 32)
//   STANDIN_CONTEXT     MiB that a context takes (default 0)
//   STANDIN_PAUSE       microseconds that taking memory or ending a pool takes (default 0)
//   STANDIN_ALIASES     1: cuGetProcAddress returns other addresses than dlsym
//   STANDIN_NO_DEFERRED 1: arrays cannot get their memory later
//   NVIDIA_VISIBLE_DEVICES  UUIDs of the GPUs to show, as a container runtime sets it

#ifndef STANDIN_MACHINE_H
#define STANDIN_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE (2ull << 20)
#define MAX_GPUS 16
#define MAX_PROCS 512

struct gpu {
	uint8_t uuid[16];
	uint64_t size, used, peak;
	uint64_t busy_until, busy_ns;
};
struct proc {
	uint32_t pid;
	uint64_t start;
	uint64_t used[MAX_GPUS];
};

int machine_gpus(void);              // visible ones
int machine_index(int visible);      // into the file
struct gpu machine_gpu(int visible); // a copy
bool machine_take(int visible, uint64_t bytes);
void machine_give(int visible, uint64_t bytes);
void machine_pause(void);
// machine_run queues work of that length and returns when it ends.
uint64_t machine_run(int visible, uint64_t not_before, uint64_t ns);
int machine_procs(int visible, struct proc *out, int max);
uint64_t machine_setting(const char *name, uint64_t otherwise);
uint64_t machine_now(void);
void machine_uuid_text(const uint8_t uuid[16], char out[48]);
uint64_t round_up(uint64_t n, uint64_t to);

#endif
