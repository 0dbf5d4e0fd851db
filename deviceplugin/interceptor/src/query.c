// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// What the driver says about memory, told within the budget: the limit is the
// size of the device, and free is what the whole container has left.

#include "internal.h"

struct story {
	uint64_t total, free;
};

static struct story tell(int dev, uint64_t real_total, uint64_t real_free)
{
	struct story s = {real_total, real_free};
	if (dev < 0)
		return s;
	uint64_t limit = fs_limit_of(dev);
	if (limit == FS_UNLIMITED)
		return s;
	if (atomic_load(&fs_pools_active))
		fs_pools_settle();
	uint64_t left = fs_sub(limit, fs_used_by_container(dev));
	s.total = limit < real_total ? limit : real_total;
	s.free = left < real_free ? left : real_free;
	return s;
}

FS_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	FS_ENTER(cuMemGetInfo_v2, (free, total));
	size_t f = 0, t = 0;
	CUresult r = real(free ? &f : NULL, total ? &t : NULL);
	if (r != CUDA_SUCCESS)
		return r;
	struct story s = tell(fs_here().dev, total ? t : UINT64_MAX, free ? f : UINT64_MAX);
	if (free)
		*free = s.free;
	if (total)
		*total = s.total;
	return r;
}

static unsigned int narrow(uint64_t n) { return n > UINT32_MAX ? UINT32_MAX : (unsigned int)n; }

FS_EXPORT CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	FS_ENTER(cuMemGetInfo, (free, total));
	unsigned int f = 0, t = 0;
	CUresult r = real(free ? &f : NULL, total ? &t : NULL);
	if (r != CUDA_SUCCESS)
		return r;
	struct story s = tell(fs_here().dev, t, f);
	if (free)
		*free = narrow(s.free);
	if (total)
		*total = narrow(s.total);
	return r;
}

FS_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	FS_ENTER(cuDeviceTotalMem_v2, (bytes, device));
	CUresult r = real(bytes, device);
	int dev = r == CUDA_SUCCESS && bytes ? fs_device_of(device) : FS_DEV_NONE;
	if (dev >= 0 && fs_limit_of(dev) < *bytes)
		*bytes = fs_limit_of(dev);
	return r;
}

FS_EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	FS_ENTER(cuDeviceTotalMem, (bytes, device));
	CUresult r = real(bytes, device);
	int dev = r == CUDA_SUCCESS && bytes ? fs_device_of(device) : FS_DEV_NONE;
	if (dev >= 0 && fs_limit_of(dev) < *bytes)
		*bytes = narrow(fs_limit_of(dev));
	return r;
}
