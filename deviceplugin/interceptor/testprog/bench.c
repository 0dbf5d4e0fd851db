// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: nanoseconds of CPU time per call, the least of many rounds. Run with
// and without the library, the difference is what it costs.

#include "cuda_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

CUresult cuInit(unsigned int);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
CUresult cuGraphCreate(CUgraph *, unsigned int);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);

enum { ROUNDS = 100, CALLS = 2000 };

static CUfunction kernel;
static CUgraphExec graph;

static void alloc_free(size_t size)
{
	CUdeviceptr p;
	if (cuMemAlloc_v2(&p, size) != CUDA_SUCCESS)
		abort();
	cuMemFree_v2(p);
}
static void large(void) { alloc_free(4 << 20); }
static void small(void) { alloc_free(1000); }
static void launch(void) { cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL); }
static void graph_launch(void) { cuGraphLaunch(graph, NULL); }

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double least(void (*call)(void))
{
	double best = 1e18;
	for (int r = 0; r < ROUNDS; r++) {
		double start = now();
		for (int i = 0; i < CALLS; i++)
			call();
		double each = (now() - start) / CALLS;
		best = each < best ? each : best;
	}
	return best;
}

int main(void)
{
	CUcontext ctx;
	CUgraph g;
	CUdeviceptr anchor;
	cuInit(0);
	if (cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS)
		return 1;
	cuCtxSetCurrent(ctx);
	cuModuleGetFunction(&kernel, NULL, "busy_0");
	cuGraphCreate(&g, 0);
	cuGraphInstantiateWithFlags(&graph, g, 0);
	cuMemAlloc_v2(&anchor, 1000); // its page stays
	printf("alloc+free-4MiB %.1f\nalloc+free-1000B %.1f\nlaunch %.1f\ngraph-launch %.1f\n", least(large), least(small), least(launch), least(graph_launch));
	return 0;
}
