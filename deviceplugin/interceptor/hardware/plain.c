// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// A plain driver program: what an allocation costs, and how much it is given. With
// a limit in MiB as its argument it fails if it is given more, or much less.

#include "driver.h"

#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void time_allocations(void)
{
	double best = 1e18;
	for (int round = 0; round < 50; round++) {
		CUdeviceptr p;
		double start = now();
		for (int i = 0; i < 200; i++)
			if (cuMemAlloc_v2(&p, 4 << 20) == CUDA_SUCCESS)
				cuMemFree_v2(p);
		double each = (now() - start) / 200;
		best = each < best ? each : best;
	}
	printf("cuMemAlloc+cuMemFree of 4 MiB: %.0f ns\n", best);
}

int main(int argc, char **argv)
{
	static CUdeviceptr all[65536];
	const size_t step = 16 << 20;
	size_t limit = argc > 1 ? strtoull(argv[1], NULL, 10) << 20 : 0, free_, total, got = 0;
	int n = 0;
	make_context();
	MUST(cuMemGetInfo_v2(&free_, &total));
	printf("free %zu MiB of %zu MiB\n", free_ >> 20, total >> 20);
	time_allocations();
	if (limit == 0)
		return 0;
	while (n < 65536 && cuMemAlloc_v2(&all[n], step) == CUDA_SUCCESS)
		n++, got += step;
	printf("granted %zu MiB in steps of 16\n", got >> 20);
	while (n > 0)
		cuMemFree_v2(all[--n]);
	return total != limit || got > limit || got + 2 * step < limit;
}
