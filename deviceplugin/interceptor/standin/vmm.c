// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: virtual memory management. Physical memory lives until its last
// handle and its last mapping, tile or binding is gone.

#include "driver.h"

#include <sys/mman.h>
#include <unistd.h>

struct physical {
	int dev;
	bool device_memory, imported, multicast;
	uint64_t size;
	int handles, holds;
	struct binding *bindings;
};
struct binding {
	int dev;
	size_t offset;
	struct physical *of;
	struct binding *next;
};

static void unbind(struct physical *mc, int dev, size_t offset, bool all);

static void end_if_unused(struct physical *o)
{
	if (o->handles > 0 || o->holds > 0)
		return;
	if (o->device_memory && !o->imported)
		machine_give(o->dev, o->size);
	unbind(o, 0, 0, true);
	free(o);
}

void *physical_ref(CUmemGenericAllocationHandle h)
{
	struct physical *o = (struct physical *)(uintptr_t)h;
	o->holds++;
	return o;
}

void physical_unref(void *object)
{
	struct physical *o = object;
	o->holds--;
	end_if_unused(o);
}

static void unbind(struct physical *mc, int dev, size_t offset, bool all)
{
	for (struct binding **at = &mc->bindings; *at != NULL;) {
		struct binding *b = *at;
		if (!all && (b->dev != dev || b->offset != offset)) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		physical_unref(b->of);
		free(b);
	}
}

static CUmemGenericAllocationHandle new_physical(struct physical with)
{
	struct physical *o = malloc(sizeof *o);
	*o = with;
	o->handles = 1;
	return (CUmemGenericAllocationHandle)(uintptr_t)o;
}

API CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop, int option)
{
	(void)option;
	if (out == NULL || prop == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*out = PAGE;
	return CUDA_SUCCESS;
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
	(void)flags;
	if (h == NULL || prop == NULL || size == 0 || size % PAGE != 0)
		return CUDA_ERROR_INVALID_VALUE;
	bool device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	if (device && (prop->location.id < 0 || prop->location.id >= machine_gpus()))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&big);
	bool fits = !device || machine_take(prop->location.id, size);
	if (fits)
		*h = new_physical((struct physical){.dev = prop->location.id, .device_memory = device, .size = size});
	pthread_mutex_unlock(&big);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemCreate_v2(CUmemGenericAllocationHandle *h, size_t size, const CUmemAllocationProp *prop, unsigned long long flags, void *more)
{
	(void)more; // a form that no interceptor of today can know
	return cuMemCreate(h, size, prop, flags);
}

API CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
	struct physical *o = (struct physical *)(uintptr_t)h;
	if (o == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&big);
	o->handles--;
	end_if_unused(o);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t align, CUdeviceptr hint, unsigned long long flags)
{
	(void)align, (void)hint, (void)flags;
	pthread_mutex_lock(&big);
	*ptr = new_addresses(0, size);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
API CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	(void)ptr, (void)size;
	return CUDA_SUCCESS;
}
API CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *d, size_t n)
{
	(void)ptr, (void)size, (void)d, (void)n;
	return CUDA_SUCCESS;
}

API CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
	(void)offset, (void)flags;
	pthread_mutex_lock(&big);
	CUresult r = block_find(ptr) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		block_add(ptr, size, MAPPED, 0, physical_ref(h));
	pthread_mutex_unlock(&big);
	return r;
}

API CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&big);
	for (CUdeviceptr at = ptr; at < ptr + size; at += PAGE) {
		struct block *b = block_find(at);
		if (b == NULL || b->kind != MAPPED)
			continue;
		void *o = b->of;
		block_remove(at);
		physical_unref(o);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&big);
	return r;
}

void *physical_at(CUdeviceptr ptr)
{
	for (CUdeviceptr at = ptr / PAGE * PAGE, i = 0; i < 4096; i++, at -= PAGE) {
		struct block *b = block_find(at);
		if (b != NULL)
			return b->kind == MAPPED && ptr - at < b->size ? b->of : NULL;
	}
	return NULL;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *addr)
{
	pthread_mutex_lock(&big);
	struct physical *o = physical_at((CUdeviceptr)(uintptr_t)addr);
	if (o != NULL) {
		o->handles++;
		*h = (CUmemGenericAllocationHandle)(uintptr_t)o;
	}
	pthread_mutex_unlock(&big);
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct shared {
	pid_t pid;
	void *object;
	int dev;
	uint64_t size;
};

API CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle h, int type, unsigned long long flags)
{
	struct physical *o = (struct physical *)(uintptr_t)h;
	struct shared s = {getpid(), o, o->dev, o->size};
	(void)flags;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FD)
		return CUDA_ERROR_NOT_SUPPORTED;
	int fd = memfd_create("standin", 0);
	if (fd < 0 || write(fd, &s, sizeof s) != sizeof s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *h, void *os, int type)
{
	struct shared s;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FD || pread((int)(intptr_t)os, &s, sizeof s, 0) != sizeof s)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&big);
	if (s.pid == getpid()) {
		((struct physical *)s.object)->handles++;
		*h = (CUmemGenericAllocationHandle)(uintptr_t)s.object;
	} else {
		*h = new_physical((struct physical){.dev = s.dev, .device_memory = true, .imported = true, .size = s.size});
	}
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

// ---- multicast

API CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mc, const CUmulticastObjectProp *prop)
{
	pthread_mutex_lock(&big);
	*mc = new_physical((struct physical){.multicast = true, .size = prop->size});
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

static CUresult bind(CUmemGenericAllocationHandle mc, size_t offset, struct physical *o)
{
	struct physical *m = (struct physical *)(uintptr_t)mc;
	if (o == NULL || !m->multicast)
		return CUDA_ERROR_INVALID_VALUE;
	struct binding *b = malloc(sizeof *b);
	*b = (struct binding){o->dev, offset, o, m->bindings};
	m->bindings = b;
	o->holds++;
	return CUDA_SUCCESS;
}

API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mc, size_t offset, CUmemGenericAllocationHandle mem, size_t mo, size_t size, unsigned long long flags)
{
	(void)mo, (void)size, (void)flags;
	pthread_mutex_lock(&big);
	CUresult r = bind(mc, offset, (struct physical *)(uintptr_t)mem);
	pthread_mutex_unlock(&big);
	return r;
}
API CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mc, CUdevice d, size_t offset, CUmemGenericAllocationHandle mem, size_t mo, size_t size, unsigned long long flags)
{
	(void)d;
	return cuMulticastBindMem(mc, offset, mem, mo, size, flags);
}
API CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mc, size_t offset, CUdeviceptr ptr, size_t size, unsigned long long flags)
{
	(void)size, (void)flags;
	pthread_mutex_lock(&big);
	CUresult r = bind(mc, offset, physical_at(ptr));
	pthread_mutex_unlock(&big);
	return r;
}
API CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mc, CUdevice d, size_t offset, CUdeviceptr ptr, size_t size, unsigned long long flags)
{
	(void)d;
	return cuMulticastBindAddr(mc, offset, ptr, size, flags);
}
API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mc, CUdevice d, size_t offset, size_t size)
{
	(void)size;
	pthread_mutex_lock(&big);
	unbind((struct physical *)(uintptr_t)mc, d, offset, false);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
