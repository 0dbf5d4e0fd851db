// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: the probe's commands that take and give memory.

#include "functions.h"
#include "probe.h"

#include <stdio.h>
#include <string.h>

static CUresult linear(int argc, char **argv, struct outcome *o, bool *known)
{
	CUdeviceptr p = 0;
	CUresult r;
	size_t pitch;
	if (IS("alloc"))
		r = f.cuMemAlloc_v2(&p, NUM(1));
	else if (IS("pitch"))
		r = f.cuMemAllocPitch_v2(&p, &pitch, NUM(1), NUM(2), 4);
	else if (IS("managed"))
		r = f.cuMemAllocManaged(&p, NUM(1), 1);
	else if (IS("host")) {
		void *h;
		r = f.cuMemHostAlloc(&h, NUM(1), 0);
	} else if (IS("free"))
		return f.cuMemFree_v2(NUM(1));
	else if (IS("alloc-null"))
		return f.cuMemAlloc_v2(NULL, NUM(1));
	else {
		*known = false;
		return 0;
	}
	o->value = p;
	return r;
}

static CUresult pools(int argc, char **argv, struct outcome *o, bool *known)
{
	CUdeviceptr p = 0;
	CUmemoryPool pool = NULL;
	CUresult r = CUDA_SUCCESS;
	CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)NUM(1)}};
	if (IS("async")) {
		r = f.cuMemAllocAsync(&p, NUM(1), PTR(2));
		o->value = p;
	} else if (IS("async-from")) {
		r = f.cuMemAllocFromPoolAsync(&p, NUM(2), PTR(1), NULL);
		o->value = p;
	} else if (IS("free-async"))
		r = f.cuMemFreeAsync(NUM(1), PTR(2));
	else if (IS("pool")) {
		r = f.cuMemPoolCreate(&pool, &props);
		o->value = (uintptr_t)pool;
	} else if (IS("host-pool")) {
		props.location = (CUmemLocation){2, 0};
		r = f.cuMemPoolCreate(&pool, &props);
		o->value = (uintptr_t)pool;
	} else if (IS("import-pool")) {
		r = f.cuMemPoolImportFromShareableHandle(&pool, NULL, 1, 0);
		o->value = (uintptr_t)pool;
	} else if (IS("import-pointer")) {
		r = f.cuMemPoolImportPointer(&p, PTR(1), NULL);
		o->value = p;
	} else if (IS("default-pool")) {
		r = f.cuDeviceGetDefaultMemPool(&pool, 0);
		o->value = (uintptr_t)pool;
	} else if (IS("pool-at")) {
		CUmemLocation where = {(int)NUM(1), (int)NUM(2)};
		r = f.cuMemGetMemPool(&pool, &where, 1);
		o->value = (uintptr_t)pool;
	} else if (IS("use-pool"))
		r = f.cuDeviceSetMemPool(0, PTR(1));
	else if (IS("destroy-pool"))
		r = f.cuMemPoolDestroy(PTR(1));
	else if (IS("trim"))
		r = f.cuMemPoolTrimTo(PTR(1), NUM(2));
	else if (IS("threshold")) {
		uint64_t n = NUM(2);
		r = f.cuMemPoolSetAttribute(PTR(1), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &n);
	} else if (IS("sync"))
		r = f.cuStreamSynchronize(PTR(1));
	else
		*known = false;
	return r;
}

static CUresult vmm(int argc, char **argv, struct outcome *o, bool *known)
{
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr p = 0;
	CUresult r = CUDA_SUCCESS;
	if (IS("create") || IS("create-host")) {
		CUmemAllocationProp prop = {.type = 1, .location = {IS("create") ? CU_MEM_LOCATION_TYPE_DEVICE : 2, (int)NUM(1)}};
		r = f.cuMemCreate(&h, NUM(2), &prop, 0);
		o->value = h;
	} else if (IS("release"))
		r = f.cuMemRelease(NUM(1));
	else if (IS("map")) {
		f.cuMemAddressReserve(&p, NUM(2), 0, 0, 0);
		r = f.cuMemMap(p, NUM(2), 0, NUM(1), 0);
		o->value = p;
	} else if (IS("map-at"))
		r = f.cuMemMap(NUM(1) + NUM(2), NUM(4), 0, NUM(3), 0);
	else if (IS("reserve")) {
		r = f.cuMemAddressReserve(&p, NUM(1), 0, 0, 0);
		o->value = p;
	} else if (IS("unmap"))
		r = f.cuMemUnmap(NUM(1), NUM(2));
	else if (IS("retain")) {
		r = f.cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)(NUM(1) + NUM(2)));
		o->value = h;
	} else if (IS("export")) {
		int fd = -1;
		r = f.cuMemExportToShareableHandle(&fd, NUM(1), CU_MEM_HANDLE_TYPE_POSIX_FD, 0);
		o->value = (uint64_t)fd;
	} else if (IS("import")) {
		r = f.cuMemImportFromShareableHandle(&h, PTR(1), CU_MEM_HANDLE_TYPE_POSIX_FD);
		o->value = h;
	} else if (IS("multicast")) {
		CUmulticastObjectProp prop = {.numDevices = 1, .size = NUM(1)};
		r = f.cuMulticastCreate(&h, &prop);
		o->value = h;
	} else if (IS("bind"))
		r = f.cuMulticastBindMem(NUM(1), 0, NUM(2), 0, NUM(3), 0);
	else if (IS("bind-addr"))
		r = f.cuMulticastBindAddr(NUM(1), 0, NUM(2), NUM(3), 0);
	else if (IS("unbind"))
		r = f.cuMulticastUnbind(NUM(1), 0, 0, NUM(2));
	else
		*known = false;
	return r;
}

static CUresult arrays(int argc, char **argv, struct outcome *o, bool *known)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {NUM(1), NUM(2), NUM(3), 0x20, 1, 0};
	void *a = NULL;
	CUresult r;
	if (IS("array")) {
		CUDA_ARRAY_DESCRIPTOR flat = {NUM(1), NUM(2), 0x20, 1};
		r = f.cuArrayCreate_v2(&a, &flat);
	} else if (IS("array3d"))
		r = f.cuArray3DCreate_v2(&a, &d);
	else if (IS("sparse-array")) {
		d.Flags = CUDA_ARRAY3D_SPARSE;
		r = f.cuArray3DCreate_v2(&a, &d);
	} else if (IS("mipmap")) {
		d.Depth = 0;
		r = f.cuMipmappedArrayCreate(&a, &d, (unsigned int)NUM(3));
	} else if (IS("layered-mipmap")) {
		d.Flags = CUDA_ARRAY3D_LAYERED;
		r = f.cuMipmappedArrayCreate(&a, &d, (unsigned int)NUM(4));
	} else if (IS("destroy-array"))
		return f.cuArrayDestroy(PTR(1));
	else if (IS("destroy-mipmap"))
		return f.cuMipmappedArrayDestroy(PTR(1));
	else if (IS("tile") || IS("untile")) {
		CUarrayMapInfo m = {.resource = PTR(1), .memOperationType = IS("tile") ? 1 : 2, .memHandle = IS("tile") ? NUM(3) : 0};
		m.subresource.sparseLevel.offsetX = (unsigned int)NUM(2);
		return f.cuMemMapArrayAsync(&m, 1, NULL);
	} else {
		*known = false;
		return 0;
	}
	o->value = (uintptr_t)a;
	return r;
}

CUresult run_memory(int argc, char **argv, struct outcome *o, bool *known)
{
	CUresult (*const groups[])(int, char **, struct outcome *, bool *) = {linear, pools, vmm, arrays};
	for (int i = 0; i < 4; i++) {
		*known = true;
		CUresult r = groups[i](argc, argv, o, known);
		if (*known)
			return r;
	}
	return 0;
}
