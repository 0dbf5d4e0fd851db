// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: devices and contexts.

#include "driver.h"

#include <stdio.h>

pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER;
static struct context primary[MAX_GPUS];
static __thread struct context *stack[16];
static __thread int depth;

struct context *current(void) { return depth ? stack[depth - 1] : NULL; }

static bool good(CUdevice d) { return d >= 0 && d < machine_gpus(); }

API CUresult cuInit(unsigned int flags)
{
	(void)flags;
	return machine_gpus() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

API CUresult cuDriverGetVersion(int *version)
{
	*version = 13040;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int *n)
{
	*n = machine_gpus();
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
	if (!good(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*d = ordinal;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int n, CUdevice d)
{
	if (!good(d))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)n, "Stand-in GPU %d", d);
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice d)
{
	if (!good(d))
		return CUDA_ERROR_INVALID_DEVICE;
	struct gpu g = machine_gpu(d);
	memcpy(uuid->bytes, g.uuid, 16);
	return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice d) { return cuDeviceGetUuid(uuid, d); }

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
	if (!good(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (bytes == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = machine_gpu(d).size;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice d)
{
	size_t n;
	CUresult r = cuDeviceTotalMem_v2(&n, d);
	if (r == CUDA_SUCCESS)
		*bytes = n > UINT32_MAX ? UINT32_MAX : (unsigned int)n;
	return r;
}

API CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	if (current() == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (free == NULL || total == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	struct gpu g = machine_gpu(current()->dev);
	*free = g.size - g.used;
	*total = g.size;
	return CUDA_SUCCESS;
}

API CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t f = 0, t = 0;
	if (free == NULL || total == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = cuMemGetInfo_v2(&f, &t);
	*free = f > UINT32_MAX ? UINT32_MAX : (unsigned int)f;
	*total = t > UINT32_MAX ? UINT32_MAX : (unsigned int)t;
	return r;
}

// ---- contexts

static uint64_t overhead(void) { return round_up(machine_setting("STANDIN_CONTEXT", 0) << 20, PAGE); }

static bool activate(struct context *c, int dev)
{
	if (!machine_take(dev, overhead()))
		return false;
	*c = (struct context){.dev = dev, .primary = c->primary, .active = true, .refs = c->refs, .life = c->life + 1};
	c->limit[CU_LIMIT_STACK_SIZE] = 1024;
	c->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	c->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	return true;
}

static uint64_t limits_bytes(const struct context *c)
{
	return round_up(c->limit[CU_LIMIT_MALLOC_HEAP_SIZE] > 8 << 20 ? c->limit[CU_LIMIT_MALLOC_HEAP_SIZE] - (8 << 20) : 0, 1);
}

static void deactivate(struct context *c)
{
	machine_give(c->dev, overhead() + limits_bytes(c));
	context_freed(c);
	c->active = false;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice d)
{
	if (!good(d))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&big);
	struct context *c = &primary[d];
	c->primary = true;
	CUresult r = c->active || activate(c, d) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS) {
		c->refs++;
		*ctx = c;
	}
	pthread_mutex_unlock(&big);
	return r;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
	pthread_mutex_lock(&big);
	struct context *c = &primary[d];
	bool last = c->refs > 0 && --c->refs == 0 && c->active;
	if (last)
		deactivate(c);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRelease(CUdevice d) { return cuDevicePrimaryCtxRelease_v2(d); }

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice d)
{
	pthread_mutex_lock(&big);
	if (primary[d].active)
		deactivate(&primary[d]);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxReset(CUdevice d) { return cuDevicePrimaryCtxReset_v2(d); }

API CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned int *flags, int *active)
{
	if (!good(d))
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = 0;
	*active = primary[d].active;
	return CUDA_SUCCESS;
}

API CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice d)
{
	(void)flags;
	if (!good(d))
		return CUDA_ERROR_INVALID_DEVICE;
	struct context *c = calloc(1, sizeof *c);
	if (!activate(c, d)) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stack[depth++] = c;
	*ctx = c;
	return CUDA_SUCCESS;
}
API CUresult cuCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice d) { return cuCtxCreate_v2(ctx, flags, d); }
API CUresult cuCtxCreate_v3(CUcontext *ctx, void *a, int n, unsigned int flags, CUdevice d)
{
	(void)a, (void)n;
	return cuCtxCreate_v2(ctx, flags, d);
}
API CUresult cuCtxCreate_v4(CUcontext *ctx, void *params, unsigned int flags, CUdevice d)
{
	(void)params;
	return cuCtxCreate_v2(ctx, flags, d);
}

API CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	struct context *c = ctx;
	if (c == NULL || c->primary || !c->active)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&big);
	deactivate(c);
	pthread_mutex_unlock(&big);
	if (current() == c)
		depth--;
	return CUDA_SUCCESS;
}
API CUresult cuCtxDestroy(CUcontext ctx) { return cuCtxDestroy_v2(ctx); }

API CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	struct context *c = stack[--depth];
	if (ctx)
		*ctx = c;
	return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext ctx)
{
	depth = depth ? depth - 1 : 0;
	if (ctx)
		stack[depth++] = ctx;
	return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	*ctx = current();
	return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *d)
{
	if (current() == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*d = current()->dev;
	return CUDA_SUCCESS;
}

API CUresult cuCtxGetLimit(size_t *value, int limit)
{
	if (current() == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*value = current()->limit[limit & 7];
	return CUDA_SUCCESS;
}

API CUresult cuCtxSetLimit(int limit, size_t value)
{
	struct context *c = current();
	if (c == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	uint64_t before = limits_bytes(c), old = c->limit[limit & 7];
	c->limit[limit & 7] = value;
	uint64_t after = limits_bytes(c);
	if (after > before && !machine_take(c->dev, after - before)) {
		c->limit[limit & 7] = old;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (after < before)
		machine_give(c->dev, before - after);
	return CUDA_SUCCESS;
}
