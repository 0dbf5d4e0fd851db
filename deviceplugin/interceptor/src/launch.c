// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Compute share. GPU time is measured with a pair of events around a run of
// back-to-back launches; every nanosecond that a container kept the GPU busy moves
// the moment of its next launch by 1000 / share nanoseconds. That moment is one
// number per device for all processes of the container, so four processes get
// one share. At a share of 1000 nothing of this runs.

#include "internal.h"

#include <string.h>
#include <time.h>

#define SLICE_NS 5000000ull      // a run is made about so long, and then paid for
#define MOST_LAUNCHES 256u       // in one run, however short they are
#define PATIENCE_NS 100000000ull // longest wait for a run: its kernels may wait for the next launch
#define CREDIT_NS 5000000ull     // idle time that may be saved up
#define POLL_NS 50000l
#define PAY_AT_MOST_NS 10000000000ull

struct run {
	bool active;
	CUcontext ctx;
	CUstream stream;
	bool per_thread;
	uint32_t thread;  // whose default stream it is, 0 for other streams
	CUevent begin, end;
	uint64_t since;   // when it began
	uint64_t idle;    // of that, before its first launch: the GPU had nothing to do
	uint32_t launches;
	uint32_t calls;   // launches whose call has not returned: end says nothing of them yet
	uint64_t each;    // what a launch took on average in the run before; 0 unknown
	uint64_t paid;    // busy time paid for so far: in advance, and while waiting
};

static struct run runs[FS_MAX_DEVICES];
static struct fs_lock run_lock[FS_MAX_DEVICES];

void fs_throttle_forked(void)
{
	memset(runs, 0, sizeof runs);
	memset(run_lock, 0, sizeof run_lock);
}

// fs_throttle_context_gone forgets a run whose events the driver destroyed with
// their context; the next context may come at the same address.
void fs_throttle_context_gone(CUcontext ctx)
{
	for (int dev = 0; dev < FS_MAX_DEVICES; dev++) {
		fs_lock(&run_lock[dev]);
		if (runs[dev].ctx == ctx)
			memset(&runs[dev], 0, sizeof runs[dev]);
		fs_unlock(&run_lock[dev]);
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void nap(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
	nanosleep(&t, NULL);
}

// cost is how far busy time moves the moment of the next launch.
static uint64_t cost(int dev, uint64_t busy)
{
	uint64_t ns = fs_mul(busy, 1000) / fs_compute_milli(dev);
	return ns < PAY_AT_MOST_NS ? ns : PAY_AT_MOST_NS;
}

// take_turn waits for the container's turn on the device and pays in advance for
// what is about to run, so that other processes see the turn taken.
static void take_turn(int dev, uint64_t expected)
{
	struct fs_device_state *d = fs_device_state(dev);
	uint64_t began = now_ns(), now = began, due = atomic_load(&d->next_launch);
	for (;;) {
		// A value from another boot or a scribbling program must not stop the container.
		bool wait = due > now && due - now < 2 * PAY_AT_MOST_NS && now - began < PAY_AT_MOST_NS;
		if (wait) {
			nap(due - now < 10000000ull ? due - now : 10000000ull);
			now = now_ns();
			due = atomic_load(&d->next_launch);
			continue;
		}
		uint64_t from = due > now || due < fs_sub(now, CREDIT_NS) ? fs_sub(now, CREDIT_NS) : due;
		if (atomic_compare_exchange_weak(&d->next_launch, &due, from + cost(dev, expected)))
			break;
	}
	if (now > began)
		atomic_fetch_add(&d->throttled_ns, now - began);
}

// correct replaces what was paid for by what was used.
static void correct(int dev, uint64_t busy, uint64_t paid)
{
	struct fs_device_state *d = fs_device_state(dev);
	if (busy >= paid)
		atomic_fetch_add(&d->next_launch, cost(dev, busy - paid));
	else
		atomic_fetch_sub(&d->next_launch, cost(dev, paid - busy));
}

static CUresult record(CUevent event, const struct run *g)
{
	if (g->per_thread && HAS(cuEventRecord_ptsz))
		return CALL(cuEventRecord_ptsz)(event, g->stream);
	return CALL(cuEventRecord)(event, g->stream);
}

static void finish(int dev, struct run *g)
{
	float ms = 0;
	if (CALL(cuEventElapsedTime)(&ms, g->begin, g->end) == CUDA_SUCCESS && ms > 0) {
		uint64_t busy = fs_sub((uint64_t)((double)ms * 1e6), g->idle);
		atomic_fetch_add(&fs_device_state(dev)->busy_ns, busy);
		correct(dev, busy, g->paid);
		g->each = busy / (g->launches ? g->launches : 1) + 1;
	}
	g->active = false;
}

static bool over(const struct run *g) { return g->calls == 0 && CALL(cuEventQuery)(g->end) != CUDA_ERROR_NOT_READY; }

// wait_for_run waits until the run has left the GPU, or patience ends. What was
// waited for in vain is paid now and taken off later.
static void wait_for_run(int dev, struct run *g)
{
	uint64_t began = now_ns(), waited = 0;
	while (CALL(cuEventQuery)(g->end) == CUDA_ERROR_NOT_READY) {
		nap(POLL_NS);
		waited = now_ns() - began;
		// Asked once more: it may be us who slept for so long.
		if (waited < PATIENCE_NS || CALL(cuEventQuery)(g->end) != CUDA_ERROR_NOT_READY)
			continue;
		uint64_t fresh = fs_sub(now_ns() - g->since, g->paid);
		g->paid += fresh;
		correct(dev, fresh, 0);
		return;
	}
	atomic_fetch_add(&fs_device_state(dev)->throttled_ns, waited);
	finish(dev, g);
}

// room_in tells whether the run takes one more launch. Launches are queued far
// faster than they run, so it is their expected time that is bounded; the first
// launch of all runs alone, to be timed.
static bool room_in(const struct run *g)
{
	uint64_t most = g->each ? SLICE_NS / g->each : 1;
	return g->launches < (most < MOST_LAUNCHES ? most : MOST_LAUNCHES);
}

// thread_of numbers the threads that launch on default streams of their own, which
// have the same handle.
static uint32_t thread_of(CUstream stream, bool per_thread)
{
	static _Atomic uint32_t threads;
	static __thread uint32_t number;
	if (stream != CU_STREAM_PER_THREAD && (stream != NULL || !per_thread))
		return 0;
	if (number == 0)
		number = atomic_fetch_add(&threads, 1) + 1;
	return number;
}

static bool is_on(const struct run *g, CUcontext ctx, CUstream stream, bool per_thread)
{
	return g->active && g->ctx == ctx && g->stream == stream && g->thread == thread_of(stream, per_thread);
}

static bool begin_run(struct run *g, CUcontext ctx, CUstream stream, bool per_thread, uint64_t paid)
{
	if (g->ctx != ctx) {
		if (g->begin) {
			CALL(cuEventDestroy_v2)(g->begin);
			CALL(cuEventDestroy_v2)(g->end);
		}
		memset(g, 0, sizeof *g);
		if (CALL(cuEventCreate)(&g->begin, 0) != CUDA_SUCCESS)
			return false;
		if (CALL(cuEventCreate)(&g->end, 0) != CUDA_SUCCESS) {
			CALL(cuEventDestroy_v2)(g->begin);
			g->begin = NULL;
			return false;
		}
		g->ctx = ctx;
	}
	g->stream = stream;
	g->per_thread = per_thread;
	g->thread = thread_of(stream, per_thread);
	g->paid = paid;
	g->launches = 0;
	g->calls = 0;
	g->idle = 0;
	g->since = now_ns();
	g->active = record(g->begin, g) == CUDA_SUCCESS;
	return g->active;
}

// admit waits for the container's turn and makes sure that a run is under way. It
// returns the device if the launch belongs to that run, else FS_DEV_NONE.
static int admit(struct fs_here here, CUstream stream, bool per_thread)
{
	int dev = here.dev;
	struct run *g = &runs[dev];
	bool goes_on;
	fs_lock(&run_lock[dev]);
	for (uint64_t began = now_ns();;) {
		if (g->active && over(g))
			finish(dev, g);
		goes_on = is_on(g, here.ctx, stream, per_thread) && room_in(g);
		if (!g->active || goes_on || g->calls == 0 || now_ns() - began > PATIENCE_NS)
			break;
		fs_unlock(&run_lock[dev]);
		nap(POLL_NS);
		fs_lock(&run_lock[dev]);
	}
	if (g->active && !goes_on && g->calls == 0)
		wait_for_run(dev, g);
	g->calls += goes_on;
	uint64_t expected = g->each > SLICE_NS ? g->each : g->each ? SLICE_NS : SLICE_NS / 5;
	fs_unlock(&run_lock[dev]);
	if (goes_on)
		return dev;
	take_turn(dev, expected);
	fs_lock(&run_lock[dev]);
	if (g->active && over(g))
		finish(dev, g); // it ended while we waited for our turn
	bool measured = !g->active && begin_run(g, here.ctx, stream, per_thread, expected);
	if (!measured) {
		// Its run is still under way, or another thread began one: that one pays.
		correct(dev, 0, expected);
		measured = is_on(g, here.ctx, stream, per_thread);
	}
	g->calls += measured;
	fs_unlock(&run_lock[dev]);
	return measured ? dev : FS_DEV_NONE;
}

// gate_open is called before a launch, and returns the device to hand to
// gate_close after it, or FS_DEV_NONE where nothing is measured.
static int gate_open(CUstream stream, bool per_thread)
{
	struct fs_here here = fs_here();
	if (here.dev < 0 || fs_compute_milli(here.dev) == 1000 || !HAS(cuEventElapsedTime) || fs_capturing(stream, per_thread))
		return FS_DEV_NONE;
	int mode = fs_aside(), dev = admit(here, stream, per_thread);
	fs_aside_ends(mode);
	if (dev < 0)
		return dev;
	fs_lock(&run_lock[dev]);
	if (runs[dev].launches == 0)
		runs[dev].idle = now_ns() - runs[dev].since;
	fs_unlock(&run_lock[dev]);
	return dev;
}

static void gate_close(int dev)
{
	if (dev < 0)
		return;
	int mode = fs_aside();
	fs_lock(&run_lock[dev]);
	runs[dev].launches++;
	runs[dev].calls -= runs[dev].calls > 0;
	if (runs[dev].active && record(runs[dev].end, &runs[dev]) != CUDA_SUCCESS)
		runs[dev].active = false;
	fs_unlock(&run_lock[dev]);
	fs_aside_ends(mode);
}

#define LAUNCH(sym, params, args, stream_, per_thread)                \
	FS_EXPORT CUresult sym params                                 \
	{                                                             \
		FS_ENTER(sym, args);                                  \
		if (likely(!fs_any_throttled()))                      \
			return real args;                             \
		int gate = gate_open(stream_, per_thread);            \
		CUresult r = real args;                               \
		gate_close(gate);                                     \
		return r;                                             \
	}
#define LAUNCH2(sym, params, args, stream_)        \
	LAUNCH(sym, params, args, stream_, false)  \
	LAUNCH(sym##_ptsz, params, args, stream_, true)

LAUNCH2(cuLaunchKernel,
	(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra),
	(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra), stream)
LAUNCH2(cuLaunchCooperativeKernel,
	(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params),
	(f, gx, gy, gz, bx, by, bz, shared, stream, params), stream)
LAUNCH2(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra), (config, f, params, extra), config ? config->hStream : NULL)
LAUNCH(cuLaunch, (CUfunction f), (f), NULL, false)
LAUNCH(cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height), NULL, false)
LAUNCH(cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream), (f, width, height, stream), stream, false)
// One call for several devices, removed in CUDA 13: the share of the current one rules.
LAUNCH(cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS * list, unsigned int count, unsigned int flags), (list, count, flags), list && count ? list->hStream : NULL, false)

static CUresult graph_launch(CUresult (*real)(CUgraphExec, CUstream), CUgraphExec exec, CUstream stream, bool per_thread)
{
	bool allocates = atomic_load(&fs_graphs_active) != 0;
	if (allocates) {
		CUresult r = fs_graph_before(exec, "cuGraphLaunch");
		if (r != CUDA_SUCCESS)
			return r;
	}
	int gate = fs_any_throttled() ? gate_open(stream, per_thread) : FS_DEV_NONE;
	CUresult r = real(exec, stream);
	gate_close(gate);
	if (allocates)
		fs_graph_after(exec);
	return r;
}

FS_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	FS_ENTER(cuGraphLaunch, (exec, stream));
	if (likely(!fs_any_throttled() && atomic_load(&fs_graphs_active) == 0))
		return real(exec, stream);
	return graph_launch(real, exec, stream, false);
}

FS_EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	FS_ENTER(cuGraphLaunch_ptsz, (exec, stream));
	if (likely(!fs_any_throttled() && atomic_load(&fs_graphs_active) == 0))
		return real(exec, stream);
	return graph_launch(real, exec, stream, true);
}
