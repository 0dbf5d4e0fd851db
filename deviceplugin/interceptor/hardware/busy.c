// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Launches kernels of a millisecond for 4 seconds, and prints how many were done.

#include "driver.h"

#include <time.h>

static const char code[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			   ".visible .entry busy_1000()\n{\n"
			   ".reg .u64 %begin, %now, %spent;\n.reg .pred %more;\n"
			   "mov.u64 %begin, %globaltimer;\n"
			   "again:\nmov.u64 %now, %globaltimer;\nsub.u64 %spent, %now, %begin;\n"
			   "setp.lt.u64 %more, %spent, 1000000;\n@%more bra again;\nret;\n}\n";

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
	CUmodule module;
	CUfunction kernel;
	int done = 0;
	make_context();
	MUST(cuModuleLoadData(&module, code));
	MUST(cuModuleGetFunction(&kernel, module, "busy_1000"));
	for (double end = seconds() + 4; seconds() < end; done += 20) {
		for (int i = 0; i < 20; i++)
			MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
		MUST(cuCtxSynchronize());
	}
	printf("%d\n", done);
	return 0;
}
