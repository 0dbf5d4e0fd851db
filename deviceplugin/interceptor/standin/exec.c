// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: streams, events and kernels that do nothing for a stated time. The
// kernel "busy_500" keeps the GPU busy for 500 microseconds; the GPU runs one
// after the other, across processes. "slow_500" is launched by a call that takes 10
// milliseconds itself. The kernel "fault" faults.

#include "driver.h"

#include <stdio.h>
#include <time.h>

struct kernel {
	uint64_t ns;
	bool faults, slow;
};
CUresult fault;
static struct stream default_stream[MAX_GPUS];
static __thread struct stream own_stream[MAX_GPUS];

struct stream *stream_of(CUstream s)
{
	struct context *c = current();
	if (s != NULL && s != CU_STREAM_LEGACY && s != CU_STREAM_PER_THREAD)
		return s;
	if (c == NULL)
		return NULL;
	struct stream *d = s == CU_STREAM_PER_THREAD ? &own_stream[c->dev] : &default_stream[c->dev];
	d->dev = c->dev;
	d->ctx = c;
	return d;
}

API CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
	(void)flags;
	struct stream *s = calloc(1, sizeof *s);
	if (current() == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	s->dev = current()->dev;
	s->ctx = current();
	*out = s;
	return CUDA_SUCCESS;
}

API CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
	struct stream *s = stream_of(stream);
	if (s == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ctx = s->ctx;
	return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	struct stream *s = stream_of(stream);
	*status = s != NULL && s->capture != NULL;
	return CUDA_SUCCESS;
}
API CUresult cuStreamIsCapturing_ptsz(CUstream s, int *status) { return cuStreamIsCapturing(s, status); }

CUresult cuGraphCreate(CUgraph *g, unsigned int flags);

// A capture in global mode (0) is spoilt by calls on events that a thread makes
// without having relaxed its mode, as in the driver.
static int captures;
static bool spoilt;
static __thread int capture_mode;

API CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	int old = capture_mode;
	capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

static bool spoils(void)
{
	if (captures > 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED)
		spoilt = true;
	return captures > 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
}

API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	captures += mode == 0;
	return cuGraphCreate((CUgraph *)&stream_of(stream)->capture, 0);
}
API CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
	*out = stream_of(stream)->capture;
	stream_of(stream)->capture = NULL;
	captures = captures > 0 ? captures - 1 : 0;
	bool bad = spoilt;
	spoilt = false;
	return bad ? 901 : CUDA_SUCCESS; // capture invalidated
}

static void sleep_until(uint64_t then)
{
	for (uint64_t now; (now = machine_now()) < then;) {
		struct timespec t = {(time_t)((then - now) / 1000000000ull), (long)((then - now) % 1000000000ull)};
		nanosleep(&t, NULL);
	}
}

API CUresult cuStreamSynchronize(CUstream stream)
{
	struct stream *s = stream_of(stream);
	if (s == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	sleep_until(s->busy_until);
	pools_synchronised();
	return fault;
}
API CUresult cuStreamSynchronize_ptsz(CUstream s) { return cuStreamSynchronize(s); }
API CUresult cuStreamQuery(CUstream stream)
{
	if (stream_of(stream)->busy_until > machine_now())
		return CUDA_ERROR_NOT_READY;
	pools_synchronised();
	return CUDA_SUCCESS;
}
API CUresult cuStreamQuery_ptsz(CUstream s) { return cuStreamQuery(s); }

API CUresult cuCtxSynchronize(void)
{
	struct context *c = current();
	if (c == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	sleep_until(machine_run(c->dev, 0, 0));
	pools_synchronised();
	return CUDA_SUCCESS;
}
API CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	(void)ctx;
	return cuCtxSynchronize();
}

// An event ends with its context: what is asked of it later is an error.
struct event {
	bool recorded;
	uint64_t time;
	struct context *ctx;
	uint64_t life; // of the context, whose address may come again
};
static bool alive(const struct event *e) { return e->ctx->active && e->ctx->life == e->life; }
API CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
	(void)flags;
	if (current() == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (spoils())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	struct event *e = calloc(1, sizeof *e);
	e->ctx = current();
	e->life = e->ctx->life;
	*out = e;
	return CUDA_SUCCESS;
}
API CUresult cuEventDestroy_v2(CUevent e)
{
	free(e);
	return CUDA_SUCCESS;
}
API CUresult cuEventRecord(CUevent event, CUstream stream)
{
	struct event *e = event;
	struct stream *s = stream_of(stream);
	if (s == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!alive(e))
		return CUDA_ERROR_INVALID_HANDLE;
	uint64_t now = machine_now();
	e->time = s->busy_until > now ? s->busy_until : now;
	e->recorded = true;
	return CUDA_SUCCESS;
}
API CUresult cuEventRecord_ptsz(CUevent e, CUstream s) { return cuEventRecord(e, s); }
API CUresult cuEventQuery(CUevent event)
{
	struct event *e = event;
	if (spoils())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!alive(e))
		return CUDA_ERROR_INVALID_HANDLE;
	return e->recorded && e->time > machine_now() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
API CUresult cuEventSynchronize(CUevent event)
{
	sleep_until(((struct event *)event)->time);
	pools_synchronised();
	return CUDA_SUCCESS;
}
API CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b)
{
	struct event *x = a, *y = b;
	if (!x->recorded || !y->recorded || !alive(x) || !alive(y))
		return CUDA_ERROR_INVALID_HANDLE;
	*ms = (float)((double)(y->time - x->time) / 1e6);
	return CUDA_SUCCESS;
}

// ---- kernels

API CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
	(void)image;
	*m = (CUmodule)(uintptr_t)1;
	return CUDA_SUCCESS;
}
API CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	unsigned long us = 0;
	(void)m;
	bool faults = strcmp(name, "fault") == 0;
	bool slow = sscanf(name, "slow_%lu", &us) == 1;
	if (!faults && !slow && sscanf(name, "busy_%lu", &us) != 1)
		return CUDA_ERROR_NOT_FOUND;
	struct kernel *k = malloc(sizeof *k);
	*k = (struct kernel){us * 1000, faults, slow};
	*f = k;
	return CUDA_SUCCESS;
}

static CUresult launch(struct kernel *k, CUstream stream)
{
	struct stream *s = stream_of(stream);
	if (s == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (k->slow)
		sleep_until(machine_now() + 10000000);
	if (k->faults)
		fault = CUDA_ERROR_LAUNCH_FAILED;
	else if (s->capture)
		graph_kernel_node(s->capture, k->ns);
	else if (k->ns > 0)
		s->busy_until = machine_run(s->dev, s->busy_until, k->ns);
	return CUDA_SUCCESS;
}

#define DIM unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared
#define UNUSED (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)params
API CUresult cuLaunchKernel(CUfunction f, DIM, CUstream s, void **params, void **extra)
{
	UNUSED, (void)extra;
	return launch(f, s);
}
API CUresult cuLaunchKernel_ptsz(CUfunction f, DIM, CUstream s, void **params, void **extra)
{
	UNUSED, (void)extra;
	return launch(f, s);
}
API CUresult cuLaunchCooperativeKernel(CUfunction f, DIM, CUstream s, void **params)
{
	UNUSED;
	return launch(f, s);
}
API CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, DIM, CUstream s, void **params)
{
	UNUSED;
	return launch(f, s);
}
API CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
	(void)params, (void)extra;
	return launch(f, c->hStream);
}
API CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *c, CUfunction f, void **p, void **e) { return cuLaunchKernelEx(c, f, p, e); }
API CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *l, unsigned int n, unsigned int flags)
{
	(void)flags;
	for (unsigned int i = 0; i < n; i++)
		launch(l[i].function, l[i].hStream);
	return CUDA_SUCCESS;
}
API CUresult cuLaunch(CUfunction f) { return launch(f, NULL); }
API CUresult cuLaunchGrid(CUfunction f, int w, int h)
{
	(void)w, (void)h;
	return launch(f, NULL);
}
API CUresult cuLaunchGridAsync(CUfunction f, int w, int h, CUstream s)
{
	(void)w, (void)h;
	return launch(f, s);
}
