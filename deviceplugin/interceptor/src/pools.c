// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Stream-ordered pools. A freed block stays in its pool, so what is charged is
// what the pool has reserved (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), not what
// was asked for. The pool shrinks by itself when a stream, event or context is
// synchronised; those calls settle the account.

#include "internal.h"

#include <string.h>

#define MAX_POOLS 512

struct pool {
	CUmemoryPool handle; // NULL once destroyed with allocations outstanding
	int dev;
	bool in_use;
	bool imported;       // belongs to the exporting process, which is charged
	uint32_t flying;     // allocations between reservation and settlement
	uint64_t charged;
	uint64_t chunk;      // the step in which the driver was seen to grow it
	uint64_t live;       // allocations handed out and not freed
	uint64_t asked;      // bytes of the flying ones: room that is spoken for
};

static struct pool pools[MAX_POOLS];
_Atomic uint32_t fs_pools_active;

void fs_pools_forked(void)
{
	memset(pools, 0, sizeof pools);
	atomic_store(&fs_pools_active, 0);
}

// pool_of finds or notes a pool; under fs_state_lock. -1: no room.
static int pool_of(CUmemoryPool handle, int dev, bool imported)
{
	int free = -1;
	for (int i = 0; i < MAX_POOLS; i++) {
		if (pools[i].in_use && pools[i].handle == handle)
			return i;
		if (!pools[i].in_use && free < 0)
			free = i;
	}
	if (free >= 0)
		pools[free] = (struct pool){.handle = handle, .dev = dev, .in_use = true, .imported = imported, .chunk = fs_granularity(dev)};
	return free;
}

static uint64_t attribute(CUmemoryPool handle, int which)
{
	uint64_t n = 0;
	return CALL(cuMemPoolGetAttribute)(handle, which, &n) == CUDA_SUCCESS ? n : 0;
}

// reserved_by is what a pool has reserved: nothing where it is gone. After a fault the
// driver answers every call with it, while the memory stays taken, and charged.
static uint64_t reserved_by(const struct pool *p)
{
	uint64_t n = 0;
	CUresult r = CALL(cuMemPoolGetAttribute)(p->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &n);
	if (r == CUDA_SUCCESS)
		return n;
	return r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_INVALID_HANDLE || r == CUDA_ERROR_CONTEXT_IS_DESTROYED ? 0 : p->charged;
}

// settle_one makes the charge equal to what the pool has reserved; under
// fs_state_lock. While allocations are in flight it only ever raises it. False:
// the pool holds more than could be charged; it is charged nevertheless.
static bool settle_one(struct pool *p)
{
	if (p->imported || p->handle == NULL || p->dev < 0)
		return true;
	uint64_t now = reserved_by(p);
	bool fits = true;
	if (now > p->charged) {
		fits = fs_charge(p->dev, now - p->charged);
		if (!fits)
			fs_charge_anyway(p->dev, now - p->charged);
		p->charged = now;
		atomic_store(&fs_pools_active, 1);
	} else if (p->flying == 0 && now < p->charged) {
		fs_uncharge(p->dev, p->charged - now);
		p->charged = now;
	}
	return fits;
}

void fs_pools_settle(void)
{
	fs_lock(&fs_state_lock);
	for (int i = 0; i < MAX_POOLS; i++)
		if (pools[i].in_use)
			settle_one(&pools[i]);
	fs_unlock(&fs_state_lock);
}

void fs_pools_reclaim(int dev)
{
	CUresult (*trim)(CUmemoryPool, size_t) = (CUresult(*)(CUmemoryPool, size_t))fs_real[FS_cuMemPoolTrimTo];
	if (atomic_load(&fs_pools_active) == 0 || trim == NULL)
		return;
	int mode = fs_aside();
	fs_lock(&fs_state_lock);
	for (int i = 0; i < MAX_POOLS; i++) {
		struct pool *p = &pools[i];
		if (!p->in_use || p->dev != dev || p->handle == NULL || p->imported)
			continue;
		trim(p->handle, 0);
		settle_one(p);
	}
	fs_unlock(&fs_state_lock);
	fs_aside_ends(mode);
}

bool fs_capturing(CUstream stream, bool per_thread)
{
	int status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (per_thread && HAS(cuStreamIsCapturing_ptsz))
		CALL(cuStreamIsCapturing_ptsz)(stream, &status);
	else if (HAS(cuStreamIsCapturing))
		CALL(cuStreamIsCapturing)(stream, &status);
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// device_of_stream is that of the context the stream belongs to.
static CUdevice device_of_stream(CUstream stream, CUdevice current)
{
	CUcontext ctx, popped;
	CUdevice d = current;
	if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !HAS(cuStreamGetCtx))
		return current;
	if (CALL(cuStreamGetCtx)(stream, &ctx) != CUDA_SUCCESS || CALL(cuCtxPushCurrent_v2)(ctx) != CUDA_SUCCESS)
		return current;
	if (CALL(cuCtxGetDevice)(&d) != CUDA_SUCCESS)
		d = current;
	CALL(cuCtxPopCurrent_v2)(&popped);
	return d;
}

struct growth {
	int index; // of the pool, -1: nothing to account
	int dev;
	uint64_t reserved;
};

// before reserves what the pool must grow by at least.
static bool before(struct growth *g, CUmemoryPool handle, uint64_t size)
{
	fs_lock(&fs_state_lock);
	g->index = pool_of(handle, g->dev, false);
	if (g->index < 0) {
		fs_unlock(&fs_state_lock);
		return false;
	}
	struct pool *p = &pools[g->index];
	g->dev = p->dev;
	if (p->imported || p->dev == FS_DEV_NONE) {
		fs_unlock(&fs_state_lock);
		g->index = p->imported ? g->index : -1;
		return true;
	}
	settle_one(p);
	uint64_t held = attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	held = p->charged > held ? p->charged : held; // growth that is reserved and under way
	uint64_t room = fs_sub(held, fs_add(attribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), p->asked));
	g->reserved = size > room ? fs_round_up(size - room, p->chunk) : 0;
	p->asked = fs_add(p->asked, fs_round_up(size, 512));
	p->flying++; // keeps the pool from being settled downwards while we look for room
	fs_unlock(&fs_state_lock);
	bool fits = fs_take(g->dev, g->reserved);
	fs_lock(&fs_state_lock);
	if (fits) {
		p->charged += g->reserved;
		atomic_store(&fs_pools_active, 1);
	} else {
		p->asked = fs_sub(p->asked, fs_round_up(size, 512));
		p->flying--;
	}
	fs_unlock(&fs_state_lock);
	return fits;
}

static bool after(struct growth *g, CUresult r, CUdeviceptr ptr, uint64_t size)
{
	if (g->index < 0)
		return true;
	fs_lock(&fs_state_lock);
	struct pool *p = &pools[g->index];
	bool fits = true;
	if (!p->imported) {
		uint64_t had = p->charged;
		p->asked = fs_sub(p->asked, fs_round_up(size, 512));
		if (p->flying > 0)
			p->flying--;
		fits = settle_one(p);
		uint64_t grown = fs_sub(p->charged, had);
		// A driver that grows pools in larger steps is believed from now on.
		if (grown > 0 && fs_add(grown, g->reserved) > p->chunk && fs_add(grown, g->reserved) <= 64ull << 20)
			p->chunk = fs_add(grown, g->reserved);
	}
	if (r == CUDA_SUCCESS && fits) {
		p->live++;
		fs_insert(&(struct fs_entry){.kind = FS_POOLED, .key = ptr, .size = size, .aux = (uint64_t)g->index, .dev = (int16_t)g->dev});
	}
	fs_unlock(&fs_state_lock);
	return fits;
}

typedef CUresult (*free_async_fn)(CUdeviceptr, CUstream);
typedef CUresult (*sync_fn)(CUstream);

// undo hands back memory that turned out not to fit: the driver grew the pool by
// more than was foreseen.
static CUresult undo(struct growth *g, CUdeviceptr ptr, CUstream stream, bool per_thread, uint64_t size, const char *call)
{
	((free_async_fn)fs_real[per_thread ? FS_cuMemFreeAsync_ptsz : FS_cuMemFreeAsync])(ptr, stream);
	((sync_fn)fs_real[per_thread ? FS_cuStreamSynchronize_ptsz : FS_cuStreamSynchronize])(stream);
	fs_pools_reclaim(g->dev);
	return fs_refuse(g->dev, size, call);
}

static CUmemoryPool current_pool(CUdevice ordinal)
{
	CUmemoryPool handle = NULL;
	CUresult (*get)(CUmemoryPool *, CUdevice) = (CUresult(*)(CUmemoryPool *, CUdevice))fs_real[FS_cuDeviceGetMemPool];
	return get != NULL && get(&handle, ordinal) == CUDA_SUCCESS ? handle : NULL;
}

#define POOL_ALLOC(sym, name, params, args, pool, per_thread)                                              \
	FS_EXPORT CUresult sym params                                                                 \
	{                                                                                             \
		FS_ENTER(sym, args);                                                                  \
		if (fs_capturing(stream, per_thread))                                                    \
			return real args; /* becomes a graph node: graphs.c charges it */             \
		struct fs_here here = fs_here();                                                      \
		if (here.ctx == NULL && stream == NULL)                                               \
			return real args;                                                             \
		CUdevice ordinal = device_of_stream(stream, here.ordinal);                            \
		struct growth g = {.index = -1, .dev = fs_device_of(ordinal)};                        \
		if (g.dev == FS_DEV_NONE)                                                             \
			return real args;                                                             \
		CUmemoryPool from = pool;                                                             \
		if (from == NULL)                                                                     \
			return real args;                                                             \
		if (!before(&g, from, size))                                                          \
			return fs_refuse(g.dev, size, name);                                          \
		CUresult r = real args;                                                               \
		if (!after(&g, r, r == CUDA_SUCCESS && dptr ? *dptr : 0, size) && r == CUDA_SUCCESS)  \
			return undo(&g, *dptr, stream, per_thread, size, name);                       \
		return r;                                                                             \
	}

POOL_ALLOC(cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr *dptr, size_t size, CUstream stream), (dptr, size, stream), current_pool(ordinal), false)
POOL_ALLOC(cuMemAllocAsync_ptsz, "cuMemAllocAsync", (CUdeviceptr *dptr, size_t size, CUstream stream), (dptr, size, stream), current_pool(ordinal), true)
POOL_ALLOC(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", (CUdeviceptr *dptr, size_t size, CUmemoryPool pool, CUstream stream), (dptr, size, pool, stream), pool, false)
POOL_ALLOC(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", (CUdeviceptr *dptr, size_t size, CUmemoryPool pool, CUstream stream), (dptr, size, pool, stream), pool, true)

bool fs_pool_free_begin(CUdeviceptr ptr, struct fs_entry *old)
{
	fs_lock(&fs_state_lock);
	bool known = fs_remove(FS_POOLED, ptr, old);
	fs_unlock(&fs_state_lock);
	return known;
}

void fs_pool_free_end(const struct fs_entry *old, bool freed)
{
	fs_lock(&fs_state_lock);
	struct pool *p = &pools[old->aux];
	if (!freed) {
		fs_insert(old);
	} else if (--p->live == 0 && p->handle == NULL) {
		fs_uncharge(p->dev, p->charged); // destroyed earlier, and this was its last block
		p->in_use = false;
	} else {
		settle_one(p);
	}
	fs_unlock(&fs_state_lock);
}

static CUresult free_async(CUresult (*real)(CUdeviceptr, CUstream), CUdeviceptr ptr, CUstream stream, bool per_thread)
{
	struct fs_entry old;
	if (fs_capturing(stream, per_thread))
		return real(ptr, stream);
	bool known = fs_pool_free_begin(ptr, &old);
	bool linear = !known && fs_linear_free_begin(ptr, &old); // of cuMemAlloc: that is allowed
	CUresult r = real(ptr, stream);
	if (known)
		fs_pool_free_end(&old, r == CUDA_SUCCESS);
	else if (linear)
		fs_linear_free_end(&old, r == CUDA_SUCCESS);
	else if (atomic_load(&fs_graphs_active))
		fs_graphs_settle(fs_here().dev);
	return r;
}

FS_EXPORT CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	FS_ENTER(cuMemFreeAsync, (ptr, stream));
	return free_async(real, ptr, stream, false);
}

FS_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	FS_ENTER(cuMemFreeAsync_ptsz, (ptr, stream));
	return free_async(real, ptr, stream, true);
}

static void note(CUmemoryPool handle, int dev, bool imported)
{
	fs_lock(&fs_state_lock);
	pool_of(handle, dev, imported);
	fs_unlock(&fs_state_lock);
}

FS_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	FS_ENTER(cuMemPoolCreate, (pool, props));
	CUresult r = real(pool, props);
	if (r == CUDA_SUCCESS) {
		bool exempt = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED && (fs_region_flags() & FS_FLAG_MANAGED_FREE);
		note(*pool, exempt ? FS_DEV_NONE : fs_device_of_location(&props->location), false);
	}
	return r;
}

FS_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	FS_ENTER(cuMemPoolDestroy, (pool));
	struct pool *p = NULL;
	fs_lock(&fs_state_lock);
	for (int i = 0; i < MAX_POOLS; i++)
		if (pools[i].in_use && pools[i].handle == pool)
			p = &pools[i];
	if (p != NULL) {
		p->handle = NULL; // other threads that settle must not ask a pool that ends
		p->live++;
	}
	fs_unlock(&fs_state_lock);
	CUresult r = real(pool);
	if (p == NULL)
		return r;
	fs_lock(&fs_state_lock);
	p->live--;
	if (r != CUDA_SUCCESS) {
		p->handle = pool;
	} else if (p->live == 0) { // else memory stays until the last block is freed
		fs_uncharge(p->dev, p->charged);
		p->in_use = false;
	}
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	FS_ENTER(cuMemPoolTrimTo, (pool, keep));
	CUresult r = real(pool, keep);
	fs_pools_settle();
	return r;
}

FS_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute_, void *value)
{
	FS_ENTER(cuMemPoolSetAttribute, (pool, attribute_, value));
	CUresult r = real(pool, attribute_, value);
	fs_pools_settle();
	return r;
}

static int device_of_place(const CUmemLocation *where, int type)
{
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED && (fs_region_flags() & FS_FLAG_MANAGED_FREE))
		return FS_DEV_NONE;
	return fs_device_of_location(where);
}

#define GET_POOL(sym, params, args, dev)                \
	FS_EXPORT CUresult sym params                   \
	{                                               \
		FS_ENTER(sym, args);                    \
		CUresult r = real args;                 \
		if (r == CUDA_SUCCESS)                  \
			note(*pool, dev, false);        \
		return r;                               \
	}
GET_POOL(cuDeviceGetMemPool, (CUmemoryPool *pool, CUdevice ordinal), (pool, ordinal), fs_device_of(ordinal))
GET_POOL(cuDeviceGetDefaultMemPool, (CUmemoryPool *pool, CUdevice ordinal), (pool, ordinal), fs_device_of(ordinal))
GET_POOL(cuMemGetMemPool, (CUmemoryPool *pool, CUmemLocation *where, int type), (pool, where, type), device_of_place(where, type))
GET_POOL(cuMemGetDefaultMemPool, (CUmemoryPool *pool, CUmemLocation *where, int type), (pool, where, type), device_of_place(where, type))

FS_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type, unsigned long long flags)
{
	FS_ENTER(cuMemPoolImportFromShareableHandle, (pool, handle, type, flags));
	CUresult r = real(pool, handle, type, flags);
	if (r == CUDA_SUCCESS)
		note(*pool, FS_DEV_NONE, true);
	return r;
}
