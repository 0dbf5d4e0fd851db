// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: a stand-in libnvidia-ml.so.1 with two GPUs, of which the first is in
// MIG mode. Structures are those of CUDA 12's nvml.h.
//
//   STANDIN_DESTROYED   driver's index of an instance that is gone

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6 };
enum { MIB = 1 << 20, SLOTS = 7 };

struct device {
	const char *uuid, *name;
	unsigned long long mib;
	struct device *card; // of an instance
	unsigned gi, ci, slices, gi_slices;
};

static struct device cards[] = {
	{"GPU-aaaaaaaa-0000-0000-0000-000000000000", "NVIDIA A100-SXM4-40GB", 40960, NULL, 0, 0, 0, 0},
	{"GPU-bbbbbbbb-0000-0000-0000-000000000000", "Tesla T4", 15360, NULL, 0, 0, 0, 0},
};
// By the driver's index, which has a gap.
static struct device instances[SLOTS] = {
	[0] = {"MIG-00000000-0000-0000-0000-000000000000", "NVIDIA A100-SXM4-40GB MIG 1g.5gb+me", 4864, &cards[0], 13, 0, 1, 1},
	[2] = {"MIG-22222222-0000-0000-0000-000000000000", "NVIDIA A100-SXM4-40GB MIG 2g.10gb", 9856, &cards[0], 3, 0, 2, 2},
	[3] = {"MIG-33333333-0000-0000-0000-000000000000", "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 19968, &cards[0], 1, 0, 1, 3},
	[4] = {"MIG-44444444-0000-0000-0000-000000000000", "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb", 19968, &cards[0], 1, 1, 2, 3},
};

static int there(int i)
{
	const char *gone = getenv("STANDIN_DESTROYED");
	return i >= 0 && i < SLOTS && instances[i].uuid && !(gone && atoi(gone) == i);
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_FOUND ? "Not Found" : code == UNSUPPORTED ? "Not Supported" : "Invalid Argument"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct device **d)
{
	if (i > 1)
		return INVALID;
	*d = &cards[i];
	return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **d)
{
	for (int i = 0; i < 2; i++)
		if (strcmp(cards[i].uuid, uuid) == 0) {
			*d = &cards[i];
			return SUCCESS;
		}
	for (int i = 0; i < SLOTS; i++)
		if (there(i) && strcmp(instances[i].uuid, uuid) == 0) {
			*d = &instances[i];
			return SUCCESS;
		}
	return NOT_FOUND;
}

int nvmlDeviceGetUUID(struct device *d, char *to, unsigned size) { snprintf(to, size, "%s", d->uuid); return SUCCESS; }
int nvmlDeviceGetName(struct device *d, char *to, unsigned size) { snprintf(to, size, "%s", d->name); return SUCCESS; }

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *m)
{
	*m = (struct memory){d->mib * MIB, d->mib * MIB, 0};
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *d, struct memory_v2 *m)
{
	m->total = m->free = d->mib * MIB;
	m->reserved = d->card ? 0 : 600 * MIB;
	m->used = 0;
	return SUCCESS;
}

int nvmlDeviceGetMinorNumber(struct device *d, unsigned *n)
{
	if (d->card)
		return UNSUPPORTED;
	*n = (unsigned)(d - cards) + 4;
	return SUCCESS;
}

int nvmlDeviceGetNumaNodeId(struct device *d, unsigned *n) { (void)d; *n = 1; return SUCCESS; }

int nvmlDeviceGetMigMode(struct device *d, unsigned *now, unsigned *pending)
{
	if (d != &cards[0])
		return UNSUPPORTED;
	*now = *pending = 1;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned *n) { *n = d == &cards[0] ? SLOTS : 0; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned i, struct device **m)
{
	if (d != &cards[0] || i >= SLOTS)
		return INVALID;
	if (!there((int)i))
		return NOT_FOUND;
	*m = &instances[i];
	return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(struct device *d, unsigned *id) { *id = d->gi; return d->card ? SUCCESS : INVALID; }
int nvmlDeviceGetComputeInstanceId(struct device *d, unsigned *id) { *id = d->ci; return d->card ? SUCCESS : INVALID; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *d, struct device **card) { *card = d->card; return d->card ? SUCCESS : INVALID; }

struct attributes { unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices; unsigned long long mib; };

int nvmlDeviceGetAttributes_v2(struct device *d, struct attributes *a)
{
	if (!d->card)
		return UNSUPPORTED;
	*a = (struct attributes){.multiprocessors = 14 * d->slices, .gpu_slices = d->gi_slices, .compute_slices = d->slices, .mib = d->mib};
	return SUCCESS;
}

// A field of a card alone; an instance has none.
int nvmlDeviceGetFieldValues(struct device *d, int n, void *values) { (void)d; (void)n; (void)values; return UNSUPPORTED; }

struct process { unsigned pid; unsigned long long used; unsigned gi, ci; };

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process *p)
{
	unsigned room = *n;
	*n = d == &instances[2];
	if (*n > room)
		return 7; // NVML_ERROR_INSUFFICIENT_SIZE
	if (*n)
		p[0] = (struct process){4711, 100 * MIB, d->gi, d->ci};
	return SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned *n, struct process *p) { (void)d; (void)p; *n = 0; return SUCCESS; }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process *p) { (void)d; (void)p; *n = 0; return SUCCESS; }
