// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: random allocations and frees of every kind by several threads.
//
//   stress THREADS SEQUENCES SEED [die]
//
// A sequence is ten steps; at its end it frees all but, now and then,
// one allocation. The program prints "done", waits for the end of its standard
// input holding those, frees them and prints "ok". With die it kills itself in
// the middle. Errors other than out of memory end it with status 1.

#include "cuda_abi.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CUresult cuInit(unsigned int);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned int);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuArrayCreate_v2(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
CUresult cuArrayDestroy(CUarray);
CUresult cuMemGetInfo_v2(size_t *, size_t *);

enum { SLOTS = 12, STEPS = 10, KINDS = 5, PAGE = 2 << 20 };

struct held {
	int kind; // 0: empty
	unsigned long long what, address, size;
};

static int sequences, deadly;
static _Atomic long steps_done;

static unsigned int roll(unsigned long long *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned int)(*seed >> 33);
}

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY)
		return;
	printf("%s: error %d\n", what, r);
	fflush(stdout);
	_exit(1);
}

static void take(struct held *h, unsigned long long *seed)
{
	CUdeviceptr p = 0;
	CUmemGenericAllocationHandle phys = 0;
	CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUDA_ARRAY_DESCRIPTOR d = {roll(seed) % 2000 + 1, roll(seed) % 500 + 1, 0x20, 1};
	unsigned long long size = roll(seed) % (12 << 20) + 1;
	int kind = (int)(roll(seed) % KINDS) + 1;
	CUresult r = CUDA_SUCCESS;
	switch (kind) {
	case 1: r = cuMemAlloc_v2(&p, roll(seed) % 3 ? size : size % 4096 + 1); break;
	case 2: r = cuMemAllocManaged(&p, size, 1); break;
	case 3: r = cuMemAllocAsync(&p, size, NULL); break;
	case 4:
		size = (size + PAGE - 1) / PAGE * PAGE;
		r = cuMemCreate(&phys, size, &prop, 0);
		if (r == CUDA_SUCCESS) {
			cuMemAddressReserve(&p, size, 0, 0, 0);
			check(cuMemMap(p, size, 0, phys, 0), "cuMemMap");
		}
		break;
	case 5: r = cuArrayCreate_v2((CUarray *)&p, &d); break;
	}
	check(r, "allocation");
	if (r == CUDA_SUCCESS)
		*h = (struct held){kind, phys, p, size};
}

static void give(struct held *h)
{
	switch (h->kind) {
	case 1: case 2: check(cuMemFree_v2(h->address), "cuMemFree"); break;
	case 3: check(cuMemFreeAsync(h->address, NULL), "cuMemFreeAsync"); break;
	case 4: // in either order
		if (h->size / PAGE % 2) {
			check(cuMemRelease(h->what), "cuMemRelease");
			check(cuMemUnmap(h->address, h->size), "cuMemUnmap");
		} else {
			check(cuMemUnmap(h->address, h->size), "cuMemUnmap");
			check(cuMemRelease(h->what), "cuMemRelease");
		}
		break;
	case 5: check(cuArrayDestroy((CUarray)(uintptr_t)h->address), "cuArrayDestroy"); break;
	}
	h->kind = 0;
}

struct work {
	unsigned long long seed;
	struct held kept[SLOTS];
};

static void *body(void *arg)
{
	struct work *w = arg;
	CUcontext ctx;
	struct held h[SLOTS] = {0};
	check(cuDevicePrimaryCtxRetain(&ctx, 0), "context");
	cuCtxSetCurrent(ctx);
	for (int s = 0; s < sequences; s++) {
		for (int i = 0; i < STEPS; i++) {
			struct held *one = &h[roll(&w->seed) % SLOTS];
			if (one->kind)
				give(one);
			else
				take(one, &w->seed);
			if (atomic_fetch_add(&steps_done, 1) > 500 && deadly && roll(&w->seed) % 200 == 0)
				kill(getpid(), SIGKILL);
		}
		size_t free = 0, total = 0;
		check(cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
		if (free > total)
			check(1, "free above total");
		int keep = s == sequences - 1 ? (int)(roll(&w->seed) % SLOTS) : -1;
		for (int i = 0; i < SLOTS; i++)
			if (i == keep)
				w->kept[i] = h[i];
			else
				give(&h[i]);
	}
	check(cuStreamSynchronize(NULL), "cuStreamSynchronize");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[64];
	static struct work w[64];
	int threads = atoi(argv[1]);
	sequences = atoi(argv[2]);
	deadly = argc > 4;
	check(cuInit(0), "cuInit");
	CUcontext ctx;
	check(cuDevicePrimaryCtxRetain(&ctx, 0), "context");
	cuCtxSetCurrent(ctx);
	for (int i = 0; i < threads; i++) {
		w[i].seed = strtoull(argv[3], NULL, 10) * 1000 + (unsigned long long)i;
		pthread_create(&t[i], NULL, body, &w[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	cuStreamSynchronize(NULL);
	printf("done\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	for (int i = 0; i < threads; i++)
		for (int j = 0; j < SLOTS; j++)
			give(&w[i].kept[j]);
	cuStreamSynchronize(NULL);
	printf("ok\n");
	fflush(stdout);
	getchar();
	return 0;
}
