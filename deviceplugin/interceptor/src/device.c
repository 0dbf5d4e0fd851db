// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// From what the driver calls a device to its entry in the limits. Ordinals
// change with CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, so the UUID decides.

#include "internal.h"

#define MAX_ORDINALS 64
#define DEFAULT_GRANULARITY (2ull << 20)

static _Atomic int dev_of_ordinal[MAX_ORDINALS];         // dev + 3, 0 unknown
static _Atomic int ordinal_of_dev[FS_MAX_DEVICES];       // ordinal + 1, 0 unknown
static _Atomic uint64_t granularity[FS_MAX_DEVICES];

void fs_devices_forked(void)
{
	for (int i = 0; i < MAX_ORDINALS; i++)
		atomic_store(&dev_of_ordinal[i], 0);
}

int fs_device_of(CUdevice ordinal)
{
	if (ordinal < 0 || ordinal >= MAX_ORDINALS)
		return FS_DEV_NONE;
	int known = atomic_load_explicit(&dev_of_ordinal[ordinal], memory_order_relaxed);
	if (likely(known != 0))
		return known - 3;
	CUuuid uuid;
	CUresult r = HAS(cuDeviceGetUuid_v2) ? CALL(cuDeviceGetUuid_v2)(&uuid, ordinal)
					     : HAS(cuDeviceGetUuid) ? CALL(cuDeviceGetUuid)(&uuid, ordinal)
								    : CUDA_ERROR_NOT_FOUND;
	if (r != CUDA_SUCCESS)
		return FS_DEV_NONE; // no such device: the driver's own answer will say so
	int dev = fs_device_by_uuid(uuid.bytes, ordinal);
	if (dev < 0)
		dev = FS_DEV_FOREIGN;
	else
		atomic_store(&ordinal_of_dev[dev], ordinal + 1);
	atomic_store(&dev_of_ordinal[ordinal], dev + 3);
	return dev;
}

CUdevice fs_ordinal_of(int dev) { return dev < 0 ? -1 : atomic_load(&ordinal_of_dev[dev]) - 1; }

int fs_device_of_location(const CUmemLocation *where)
{
	return where != NULL && where->type == CU_MEM_LOCATION_TYPE_DEVICE ? fs_device_of(where->id) : FS_DEV_NONE;
}

struct fs_here fs_here(void)
{
	struct fs_here h = {NULL, -1, FS_DEV_NONE};
	if (CALL(cuCtxGetCurrent)(&h.ctx) != CUDA_SUCCESS || h.ctx == NULL)
		return h;
	if (CALL(cuCtxGetDevice)(&h.ordinal) == CUDA_SUCCESS)
		h.dev = fs_device_of(h.ordinal);
	if (h.dev >= 0)
		fs_context_seen(h.ctx, h.dev);
	return h;
}

// fs_granularity is the size of a physical page, 2 MiB on the GPUs of today.
uint64_t fs_granularity(int dev)
{
	if (dev < 0)
		return DEFAULT_GRANULARITY;
	uint64_t g = atomic_load_explicit(&granularity[dev], memory_order_relaxed);
	if (likely(g != 0))
		return g;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, fs_ordinal_of(dev)}};
	size_t n = 0;
	if (!HAS(cuMemGetAllocationGranularity) ||
	    CALL(cuMemGetAllocationGranularity)(&n, &prop, 0) != CUDA_SUCCESS || n == 0)
		n = DEFAULT_GRANULARITY;
	atomic_store(&granularity[dev], n);
	return n;
}
