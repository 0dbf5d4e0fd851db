// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: stream-ordered pools. They grow in chunks, keep what is freed and
// shrink to their release threshold when something is synchronised.

#include "driver.h"

struct pool {
	int dev;
	bool device_memory, destroyed, imported;
	uint64_t reserved, used, high, threshold;
	int live;
	struct pool *next;
};
static struct pool *pools;
static struct pool *default_pool[MAX_GPUS], *current_pool[MAX_GPUS], *host_pool;

static uint64_t chunk(void)
{
	static uint64_t n;
	if (n == 0)
		n = machine_setting("STANDIN_POOL_CHUNK", 2) << 20;
	return n;
}

static struct pool *pool_new(int dev, bool device_memory)
{
	struct pool *p = calloc(1, sizeof *p);
	*p = (struct pool){.dev = dev, .device_memory = device_memory, .next = pools};
	return pools = p;
}

static struct pool *default_of(int dev)
{
	if (default_pool[dev] == NULL)
		current_pool[dev] = default_pool[dev] = pool_new(dev, true);
	return default_pool[dev];
}

static void shrink(struct pool *p, uint64_t keep)
{
	uint64_t least = round_up(p->used > keep ? p->used : keep, chunk());
	if (!p->device_memory || p->reserved <= least)
		return;
	machine_give(p->dev, p->reserved - least);
	p->reserved = least;
}

void pools_synchronised(void)
{
	pthread_mutex_lock(&big);
	for (struct pool *p = pools; p != NULL; p = p->next)
		shrink(p, p->threshold);
	pthread_mutex_unlock(&big);
}

static CUresult pool_take(struct pool *p, CUdeviceptr *out, uint64_t size)
{
	uint64_t n = round_up(size, 512);
	if (out == NULL || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->device_memory && p->used + n > p->reserved) {
		uint64_t grow = round_up(p->used + n - p->reserved, chunk());
		if (!machine_take(p->dev, grow))
			return CUDA_ERROR_OUT_OF_MEMORY;
		p->reserved += grow;
		p->high = p->reserved > p->high ? p->reserved : p->high;
	}
	p->used += n;
	p->live++;
	*out = new_addresses(p->dev, size);
	block_add(*out, size, POOLED, p->dev, p);
	return CUDA_SUCCESS;
}

void pool_block_freed(struct block *b)
{
	struct pool *p = b->of;
	p->used -= round_up(b->size, 512);
	if (--p->live == 0 && p->destroyed)
		shrink(p, 0);
}

static CUresult alloc(struct pool *p, CUdeviceptr *out, uint64_t size, CUstream stream)
{
	struct stream *s = stream_of(stream);
	if (s == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&big);
	CUresult r;
	if (s->capture)
		r = graph_alloc_node(s->capture, size, s->dev, out);
	else {
		default_of(s->dev);
		r = pool_take(p ? p : current_pool[s->dev], out, size);
	}
	pthread_mutex_unlock(&big);
	return r;
}

API CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s) { return alloc(NULL, p, n, s); }
API CUresult cuMemAllocAsync_ptsz(CUdeviceptr *p, size_t n, CUstream s) { return alloc(NULL, p, n, s); }
API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s) { return alloc(pool, p, n, s); }
API CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s) { return alloc(pool, p, n, s); }

API CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	struct stream *s = stream_of(stream);
	if (s == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&big);
	CUresult r = s->capture ? graph_free_node(s->capture, ptr) : block_free(ptr);
	pthread_mutex_unlock(&big);
	return r;
}
API CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream s) { return cuMemFreeAsync(ptr, s); }

API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	if (pool == NULL || props == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	bool device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
	pthread_mutex_lock(&big);
	*pool = pool_new(device ? props->location.id : 0, device);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool *p = pool;
	pthread_mutex_lock(&big);
	p->destroyed = true;
	p->threshold = 0;
	if (p->live == 0)
		shrink(p, 0);
	if (current_pool[p->dev] == p)
		current_pool[p->dev] = default_pool[p->dev];
	pthread_mutex_unlock(&big);
	machine_pause();
	return CUDA_SUCCESS;
}

API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	pthread_mutex_lock(&big);
	shrink(pool, keep);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	struct pool *p = pool;
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		p->threshold = *(uint64_t *)value;
	return CUDA_SUCCESS;
}

API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	struct pool *p = pool;
	if (fault != CUDA_SUCCESS)
		return fault;
	if (p->destroyed)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(uint64_t *)value = p->threshold; break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(uint64_t *)value = p->reserved; break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(uint64_t *)value = p->high; break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(uint64_t *)value = p->used; break;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice d)
{
	pthread_mutex_lock(&big);
	*pool = default_of(d);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice d)
{
	pthread_mutex_lock(&big);
	default_of(d);
	*pool = current_pool[d];
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuDeviceSetMemPool(CUdevice d, CUmemoryPool pool)
{
	pthread_mutex_lock(&big);
	default_of(d);
	current_pool[d] = pool;
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *where, int type)
{
	(void)type;
	if (where->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return cuDeviceGetMemPool(pool, where->id);
	if (host_pool == NULL)
		host_pool = pool_new(0, false);
	*pool = host_pool;
	return CUDA_SUCCESS;
}
API CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *where, int type)
{
	return where->type == CU_MEM_LOCATION_TYPE_DEVICE ? cuDeviceGetDefaultMemPool(pool, where->id) : cuMemGetMemPool(pool, where, type);
}
API CUresult cuMemSetMemPool(CUmemLocation *where, int type, CUmemoryPool pool)
{
	(void)type;
	return cuDeviceSetMemPool(where->id, pool);
}

API CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, int type, unsigned long long flags)
{
	(void)type, (void)flags;
	*(uint64_t *)out = (uint64_t)(uintptr_t)pool;
	return CUDA_SUCCESS;
}
// An imported pool reports the exporter's reserved bytes, as the driver does.
API CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type, unsigned long long flags)
{
	(void)handle, (void)type, (void)flags;
	pthread_mutex_lock(&big);
	struct pool *p = pool_new(0, false);
	p->imported = true;
	p->reserved = 64ull << 20;
	*pool = p;
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
API CUresult cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool, void *data)
{
	(void)pool, (void)data;
	pthread_mutex_lock(&big);
	*ptr = new_addresses(0, PAGE);
	block_add(*ptr, PAGE, FOREIGN, 0, NULL);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
