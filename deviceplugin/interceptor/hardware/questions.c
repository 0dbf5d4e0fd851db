// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// What the interceptor takes for granted about a driver and no document says. To be
// run without it; prints what the driver does, and fails where an assumption is wrong.

#include "driver.h"

static int wrong;

static void answer(const char *question, long long value, const char *unit, const char *assumed, int holds)
{
	printf("%s: %lld %s; assumed: %s%s\n", question, value, unit, assumed, holds ? "" : " <-- WRONG");
	wrong |= !holds;
}

static long long free_bytes(void)
{
	size_t free_, total;
	MUST(cuMemGetInfo_v2(&free_, &total));
	return (long long)free_;
}

// Small blocks share pages of 2 MiB.
static void pages(void)
{
	enum { N = 4096 };
	static CUdeviceptr p[N];
	long long before = free_bytes();
	for (int i = 0; i < N; i++)
		MUST(cuMemAlloc_v2(&p[i], 1000));
	long long taken = before - free_bytes();
	answer("4096 blocks of 1000 bytes take", taken >> 10, "KiB", "pages of 2 MiB, at most 8 MiB", taken % (2 << 20) == 0 && taken <= 8 << 20);
	for (int i = 0; i < N; i++)
		MUST(cuMemFree_v2(p[i]));
	MUST(cuMemAlloc_v2(&p[0], (2 << 20) + 1));
	taken = before - free_bytes();
	answer("a block of 2 MiB and a byte takes", taken >> 10, "KiB", "two pages", taken == 4 << 20);
	MUST(cuMemFree_v2(p[0]));
}

// A deferred array of a shape tells what an ordinary one takes.
static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {4096, 4093, 0, 0x20, 1, CUDA_ARRAY3D_DEFERRED_MAPPING};
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
	CUarray a;
	long long before = free_bytes();
	if (cuArray3DCreate_v2(&a, &d) != CUDA_SUCCESS) {
		printf("the device has no deferred arrays: arrays are reckoned from their shape\n");
		return;
	}
	answer("a deferred array takes", (before - free_bytes()) >> 10, "KiB", "nothing", before == free_bytes());
	MUST(cuArrayGetMemoryRequirements(&needs, a, 0));
	MUST(cuArrayDestroy(a));
	d.Flags = 0;
	MUST(cuArray3DCreate_v2(&a, &d));
	long long taken = before - free_bytes(), told = (long long)needs.size;
	printf("an array of 4096 x 4093 floats needs %lld KiB as told\n", told >> 10);
	answer("and takes", taken >> 10, "KiB", "as much, less than a page apart", taken <= told + (2 << 20) && told <= taken + (2 << 20));
	MUST(cuArrayDestroy(a));
}

static void pools(void)
{
	CUmemoryPool pool;
	CUdeviceptr p;
	unsigned long long reserved = 0;
	MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	MUST(cuMemAllocAsync(&p, 1 << 20, NULL));
	MUST(cuCtxSynchronize());
	MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	answer("the first MiB of a pool reserves", (long long)reserved >> 20, "MiB", "a step from 2 to 64 MiB", reserved >= 2 << 20 && reserved <= 64 << 20);
	MUST(cuMemFreeAsync(p, NULL));
	MUST(cuCtxSynchronize());
}

static long long graph_pool(void)
{
	unsigned long long n = 0;
	MUST(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &n));
	return (long long)n;
}

// Memory of a graph is in the graph pool by its first launch at the latest.
static void graphs(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, .bytesize = 64 << 20};
	CUgraph g;
	CUgraphNode alloc, free_;
	CUgraphExec e;
	MUST(cuGraphCreate(&g, 0));
	MUST(cuGraphAddMemAllocNode(&alloc, g, NULL, 0, &params));
	MUST(cuGraphAddMemFreeNode(&free_, g, &alloc, 1, params.dptr));
	long long none = graph_pool();
	MUST(cuGraphInstantiateWithFlags(&e, g, 0));
	printf("after instantiation the graph pool reserves %lld MiB\n", (graph_pool() - none) >> 20);
	MUST(cuGraphLaunch(e, NULL));
	MUST(cuCtxSynchronize());
	long long taken = graph_pool() - none;
	answer("after the first launch", taken >> 20, "MiB", "the 64 MiB of the graph, and less than 64 more", taken >= 64 << 20 && taken < 128 << 20);
	MUST(cuDeviceGraphMemTrim(0));
}

static void contexts(void)
{
	CUcontext mine, other;
	long long before = free_bytes();
	MUST(cuCtxGetCurrent(&mine));
	MUST(cuCtxCreate_v2(&other, 0, 0));
	printf("a second context of a process takes %lld MiB\n", (before - free_bytes()) >> 20);
	MUST(cuCtxDestroy_v2(other));
	MUST(cuCtxSetCurrent(mine));
}

int main(void)
{
	make_context();
	pages();
	arrays();
	pools();
	graphs();
	contexts();
	return wrong;
}
