// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: a statically linked program, which nothing can be preloaded into. It
// takes as many MiB of its GPU as its argument says, prints what came of it, and
// keeps them until it is killed.

#include "cuda_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

CUresult cuInit(unsigned int);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);

int main(int argc, char **argv)
{
	CUcontext ctx;
	CUdeviceptr p;
	size_t mib = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS || cuCtxSetCurrent(ctx) != CUDA_SUCCESS)
		return 3;
	printf("%zu MiB: %s\n", mib, cuMemAlloc_v2(&p, mib << 20) == CUDA_SUCCESS ? "taken" : "refused");
	fflush(stdout);
	for (;;)
		pause();
}
