// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Contexts. One costs 200 to 600 MiB of device memory that no allocation call
// shows; the agent says how much to count for it. The end of a context frees
// what was allocated in it.

#include "internal.h"

static bool context_taken(int dev, uint64_t *bytes)
{
	*bytes = fs_context_bytes(dev);
	return fs_take(dev, *bytes);
}

static void context_noted(CUcontext ctx, int dev, uint64_t bytes)
{
	fs_presence();
	fs_lock(&fs_state_lock);
	bool known = fs_find(FS_CONTEXT, (uint64_t)(uintptr_t)ctx) != NULL;
	if (!known)
		fs_insert(&(struct fs_entry){.kind = FS_CONTEXT, .key = (uint64_t)(uintptr_t)ctx, .bytes = bytes, .dev = (int16_t)dev});
	fs_unlock(&fs_state_lock);
	if (known)
		fs_give(dev, bytes); // another thread was first
}

static _Atomic(CUcontext) last_seen;

// fs_context_seen catches contexts that were made past us: the runtime makes the
// primary one through a private table. It exists, so it is charged in any case, and
// known also where that is nothing: its end gives back what was allocated in it.
void fs_context_seen(CUcontext ctx, int dev)
{
	if (likely(atomic_load_explicit(&last_seen, memory_order_relaxed) == ctx))
		return;
	fs_lock(&fs_state_lock);
	bool known = fs_find(FS_CONTEXT, (uint64_t)(uintptr_t)ctx) != NULL;
	fs_unlock(&fs_state_lock);
	if (!known) {
		uint64_t bytes = fs_context_bytes(dev);
		if (!fs_take(dev, bytes))
			fs_charge_anyway(dev, bytes);
		context_noted(ctx, dev, bytes);
	}
	atomic_store(&last_seen, ctx);
}

void fs_contexts_forked(void) { atomic_store(&last_seen, NULL); }

static bool primary_active(CUdevice ordinal)
{
	unsigned int flags = 0;
	int active = 1;
	if (HAS(cuDevicePrimaryCtxGetState))
		CALL(cuDevicePrimaryCtxGetState)(ordinal, &flags, &active);
	return active != 0;
}

FS_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice ordinal)
{
	FS_ENTER(cuDevicePrimaryCtxRetain, (ctx, ordinal));
	int dev = fs_device_of(ordinal);
	uint64_t bytes = 0;
	bool fresh = dev >= 0 && !primary_active(ordinal);
	if (fresh && !context_taken(dev, &bytes))
		return fs_refuse(dev, bytes, "cuDevicePrimaryCtxRetain");
	CUresult r = real(ctx, ordinal);
	if (r != CUDA_SUCCESS || ctx == NULL)
		fs_give(dev, bytes);
	else if (fresh)
		context_noted(*ctx, dev, bytes);
	else if (dev >= 0)
		fs_context_seen(*ctx, dev);
	return r;
}

static bool of_device(const struct fs_entry *e, const void *dev)
{
	return e->kind == FS_CONTEXT && e->dev == *(const int *)dev && e->flags == 0;
}

// primary_ended finds the primary context, and green ones made of it, by their
// device: contexts of cuCtxCreate carry a flag.
static void primary_ended(CUdevice ordinal)
{
	int dev = fs_device_of(ordinal);
	struct fs_entry old;
	if (dev < 0 || primary_active(ordinal))
		return;
	for (;;) {
		fs_lock(&fs_state_lock);
		bool known = fs_remove_any(of_device, &dev, &old);
		atomic_store(&last_seen, NULL); // the address may come again
		fs_unlock(&fs_state_lock);
		if (!known)
			break;
		fs_give(dev, old.bytes);
		fs_context_gone((CUcontext)(uintptr_t)old.key, true);
	}
	fs_pools_settle();
	fs_graphs_settle(dev);
}

#define PRIMARY_END(sym)                               \
	FS_EXPORT CUresult sym(CUdevice ordinal)       \
	{                                              \
		FS_ENTER(sym, (ordinal));              \
		CUresult r = real(ordinal);            \
		if (r == CUDA_SUCCESS)                 \
			primary_ended(ordinal);        \
		return r;                              \
	}
PRIMARY_END(cuDevicePrimaryCtxRelease)
PRIMARY_END(cuDevicePrimaryCtxRelease_v2)
PRIMARY_END(cuDevicePrimaryCtxReset)
PRIMARY_END(cuDevicePrimaryCtxReset_v2)

static void created(CUcontext ctx, int dev, uint64_t bytes)
{
	fs_presence();
	fs_lock(&fs_state_lock);
	fs_insert(&(struct fs_entry){.kind = FS_CONTEXT, .key = (uint64_t)(uintptr_t)ctx, .bytes = bytes, .dev = (int16_t)dev, .flags = 1});
	fs_unlock(&fs_state_lock);
}

#define CONTEXT_CREATE(sym, params, args)                                       \
	FS_EXPORT CUresult sym params                                           \
	{                                                                       \
		FS_ENTER(sym, args);                                            \
		int dev = fs_device_of(device);                                 \
		uint64_t bytes = 0;                                             \
		if (dev >= 0 && !context_taken(dev, &bytes))                    \
			return fs_refuse(dev, bytes, #sym);                     \
		CUresult r = real args;                                         \
		if (r != CUDA_SUCCESS || ctx == NULL)                           \
			fs_give(dev, bytes);                                    \
		else                                                            \
			created(*ctx, dev, bytes);                              \
		return r;                                                       \
	}
CONTEXT_CREATE(cuCtxCreate, (CUcontext *ctx, unsigned int flags, CUdevice device), (ctx, flags, device))
CONTEXT_CREATE(cuCtxCreate_v2, (CUcontext *ctx, unsigned int flags, CUdevice device), (ctx, flags, device))
CONTEXT_CREATE(cuCtxCreate_v3, (CUcontext *ctx, void *affinity, int n, unsigned int flags, CUdevice device), (ctx, affinity, n, flags, device))
CONTEXT_CREATE(cuCtxCreate_v4, (CUcontext *ctx, void *params, unsigned int flags, CUdevice device), (ctx, params, flags, device))

static CUresult destroyed(CUresult r, CUcontext ctx)
{
	if (r == CUDA_SUCCESS) {
		atomic_store(&last_seen, NULL);
		fs_context_gone(ctx, true);
		fs_pools_settle();
	}
	return r;
}

FS_EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
	FS_ENTER(cuCtxDestroy, (ctx));
	return destroyed(real(ctx), ctx);
}

FS_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	FS_ENTER(cuCtxDestroy_v2, (ctx));
	return destroyed(real(ctx), ctx);
}

// The device-side heap and the printf buffer are memory that the size of a limit
// takes; the first value seen is part of the context, growth above it is charged.
FS_EXPORT CUresult cuCtxSetLimit(int limit, size_t value)
{
	FS_ENTER(cuCtxSetLimit, (limit, value));
	struct fs_here here = fs_here();
	size_t old = 0;
	if ((limit != CU_LIMIT_MALLOC_HEAP_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE) || here.dev == FS_DEV_NONE ||
	    !HAS(cuCtxGetLimit) || CALL(cuCtxGetLimit)(&old, limit) != CUDA_SUCCESS)
		return real(limit, value);
	uint64_t key = (uint64_t)(uintptr_t)here.ctx ^ (uint64_t)(limit + 1) << 60;
	fs_lock(&fs_state_lock);
	struct fs_entry *known = fs_find(FS_CTXLIMIT, key);
	struct fs_entry e = known ? *known : (struct fs_entry){.kind = FS_CTXLIMIT, .key = key, .size = old, .owner = (uint64_t)(uintptr_t)here.ctx, .dev = (int16_t)here.dev};
	fs_unlock(&fs_state_lock);
	uint64_t before = e.bytes;
	e.bytes = fs_sub(value, e.size);
	if (e.bytes > before && !fs_take(here.dev, e.bytes - before))
		return fs_refuse(here.dev, e.bytes - before, "cuCtxSetLimit");
	CUresult r = real(limit, value);
	if (r != CUDA_SUCCESS) {
		fs_give(here.dev, fs_sub(e.bytes, before));
		return r;
	}
	fs_give(here.dev, fs_sub(before, e.bytes));
	fs_lock(&fs_state_lock);
	fs_insert(&e);
	fs_unlock(&fs_state_lock);
	return r;
}

// ---- Synchronisation returns freed pool memory to the device.

#define SYNC(sym, params, args)                                     \
	FS_EXPORT CUresult sym params                               \
	{                                                           \
		FS_ENTER(sym, args);                                \
		CUresult r = real args;                             \
		if (unlikely(atomic_load(&fs_pools_active)))        \
			fs_pools_settle();                          \
		return r;                                           \
	}
SYNC(cuStreamSynchronize, (CUstream stream), (stream))
SYNC(cuStreamSynchronize_ptsz, (CUstream stream), (stream))
SYNC(cuStreamQuery, (CUstream stream), (stream))
SYNC(cuStreamQuery_ptsz, (CUstream stream), (stream))
SYNC(cuEventSynchronize, (CUevent event), (event))
SYNC(cuEventQuery, (CUevent event), (event))
SYNC(cuCtxSynchronize, (void), ())
SYNC(cuCtxSynchronize_v2, (CUcontext ctx), (ctx))
