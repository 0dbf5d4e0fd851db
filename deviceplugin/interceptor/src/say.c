// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Messages. One write(2) to stderr each: no stdio buffer, no lock, no locale.

#include "internal.h"

#include <stdio.h>
#include <unistd.h>

static void say(const char *format, va_list args)
{
	char line[512];
	int n = snprintf(line, sizeof line, "fairslice: ");
	int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
	if (m < 0)
		return;
	n = n + m < (int)sizeof line - 2 ? n + m : (int)sizeof line - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; // nowhere left to complain
}

void fs_say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	say(format, args);
	va_end(args);
}

void fs_say_once(_Atomic uint32_t *said, const char *format, ...)
{
	if (atomic_exchange(said, 1))
		return;
	va_list args;
	va_start(args, format);
	say(format, args);
	va_end(args);
}

CUresult fs_refuse(int dev, uint64_t bytes, const char *call)
{
	static _Atomic uint32_t said, said_foreign;
	if (dev < 0) {
		fs_say_once(&said_foreign, "refused %s in process %d: this GPU is not in the container's GPU budget", call, (int)getpid());
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct fs_device_state *state = fs_device_state(dev);
	atomic_fetch_add(&state->refusals, 1);
	atomic_fetch_add(&state->refused_bytes, bytes);
	fs_say_once(&said,
		    "refused %llu bytes to %s in process %d: the container uses %llu of its %llu bytes on GPU %d; "
		    "further refusals of this process are not reported",
		    (unsigned long long)bytes, call, (int)getpid(), (unsigned long long)fs_used_by_container(dev),
		    (unsigned long long)fs_limit_of(dev), dev);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
