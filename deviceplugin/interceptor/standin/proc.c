// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: cuGetProcAddress. A name stands for different functions by the
// version and the stream flag that are asked for; this table says which, written
// from the documentation of the driver and not from the interceptor's own table.

#include "driver.h"

#define V(base, version, symbol) {#base, version, #symbol},
static const struct {
	const char *base;
	int version;
	const char *symbol;
} versions[] = {
	V(cuMemAlloc, 3020, cuMemAlloc_v2) V(cuMemAllocPitch, 3020, cuMemAllocPitch_v2) V(cuMemFree, 3020, cuMemFree_v2)
	V(cuMemGetInfo, 3020, cuMemGetInfo_v2) V(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2)
	V(cuArrayCreate, 3020, cuArrayCreate_v2) V(cuArray3DCreate, 3020, cuArray3DCreate_v2)
	V(cuCtxCreate, 3020, cuCtxCreate_v2) V(cuCtxCreate, 11040, cuCtxCreate_v3) V(cuCtxCreate, 12050, cuCtxCreate_v4)
	V(cuCtxDestroy, 4000, cuCtxDestroy_v2) V(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2)
	V(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) V(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2)
	V(cuMemAllocHost, 3020, cuMemAllocHost_v2) V(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2)
	V(cuGraphInstantiate, 11000, cuGraphInstantiate_v2) V(cuGraphInstantiate, 12000, cuGraphInstantiateWithFlags)
	V(cuGraphAddNode, 12030, cuGraphAddNode_v2) V(cuGraphAddNode, 13040, cuGraphAddNode_v3)
	V(cuMulticastBindMem, 13010, cuMulticastBindMem_v2) V(cuMulticastBindAddr, 13010, cuMulticastBindAddr_v2)
	V(cuCtxSynchronize, 13000, cuCtxSynchronize_v2) V(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2)
	V(cuGetProcAddress, 12000, cuGetProcAddress_v2) V(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2)
	V(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2) V(cuEventDestroy, 4000, cuEventDestroy_v2)
	V(cuMemCreate, 15000, cuMemCreate_v2)
};

#undef V
#define X(name) extern char at_##name __asm__(#name);
#include "symbols.def"
#undef X
static const struct {
	const char *name;
	void *at;
} symbols[] = {
#define X(name) {#name, &at_##name},
#include "symbols.def"
#undef X
};

static void *find(const char *name)
{
	for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
		if (strcmp(symbols[i].name, name) == 0)
			return symbols[i].at;
	return NULL;
}

// Other addresses for the same functions, as a driver may return.
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *p, size_t n, CUstream s);
static CUresult alias_alloc(CUdeviceptr *p, size_t n) { return cuMemAlloc_v2(p, n); }
static CUresult alias_free(CUdeviceptr p) { return cuMemFree_v2(p); }
static CUresult alias_async(CUdeviceptr *p, size_t n, CUstream s) { return cuMemAllocAsync_ptsz(p, n, s); }

static void *alias(const char *symbol, void *at)
{
	if (machine_setting("STANDIN_ALIASES", 0) == 0)
		return at;
	if (strcmp(symbol, "cuMemAlloc_v2") == 0)
		return (void *)alias_alloc;
	if (strcmp(symbol, "cuMemFree_v2") == 0)
		return (void *)alias_free;
	if (strcmp(symbol, "cuMemAllocAsync_ptsz") == 0)
		return (void *)alias_async;
	return at;
}

API CUresult cuGetProcAddress(const char *base, void **out, int version, uint64_t flags)
{
	const char *symbol = base;
	int best = 0;
	char per_thread[96];
	for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
		if (strcmp(versions[i].base, base) == 0 && versions[i].version <= version && versions[i].version > best) {
			best = versions[i].version;
			symbol = versions[i].symbol;
		}
	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && strlen(symbol) < 80) {
		strcpy(per_thread, symbol);
		strcat(per_thread, "_ptsz");
		if (find(per_thread) != NULL)
			symbol = per_thread;
	}
	*out = find(symbol);
	if (*out != NULL)
		*out = alias(symbol, *out);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API CUresult cuGetProcAddress_v2(const char *base, void **out, int version, uint64_t flags, int *status)
{
	CUresult r = cuGetProcAddress(base, out, version, flags);
	if (status != NULL)
		*status = r == CUDA_SUCCESS ? 0 : 1;
	return r;
}

// A private table, as the runtime uses: it makes the primary context, and ends others.
CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice d);
CUresult cuCtxDestroy_v2(CUcontext ctx);

API CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	static const void *const functions[] = {(const void *)cuDevicePrimaryCtxRetain, (const void *)cuCtxDestroy_v2};
	(void)id;
	*table = functions;
	return CUDA_SUCCESS;
}
