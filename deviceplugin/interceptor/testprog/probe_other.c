// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: the probe's commands about graphs, contexts, queries and launches.

#include "functions.h"
#include "probe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static CUresult graphs(int argc, char **argv, struct outcome *o, bool *known)
{
	void *p = NULL;
	CUresult r = CUDA_SUCCESS;
	if (IS("graph")) {
		r = f.cuGraphCreate(&p, 0);
		o->value = (uintptr_t)p;
	} else if (IS("alloc-node") || IS("any-node")) {
		CUgraphNodeParams n = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
		n.alloc.poolProps = (CUmemPoolProps){.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)NUM(4)}};
		n.alloc.bytesize = NUM(2);
		void *after = PTR(3);
		if (IS("alloc-node"))
			r = f.cuGraphAddMemAllocNode(&p, PTR(1), (const CUgraphNode *)&after, after ? 1 : 0, &n.alloc);
		else
			r = f.cuGraphAddNode_v2(&p, PTR(1), (const CUgraphNode *)&after, NULL, after ? 1 : 0, &n);
		o->value = (uintptr_t)p;
		name_set("ptr", n.alloc.dptr);
	} else if (IS("free-node")) {
		void *after = PTR(3);
		r = f.cuGraphAddMemFreeNode(&p, PTR(1), (const CUgraphNode *)&after, after ? 1 : 0, NUM(2));
		o->value = (uintptr_t)p;
	} else if (IS("child-node"))
		r = f.cuGraphAddChildGraphNode(&p, PTR(1), NULL, 0, PTR(2));
	else if (IS("instantiate")) {
		r = f.cuGraphInstantiateWithFlags(&p, PTR(1), 0);
		o->value = (uintptr_t)p;
	} else if (IS("instantiate-params")) {
		CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = NUM(2)};
		r = f.cuGraphInstantiateWithParams(&p, PTR(1), &params);
		o->value = (uintptr_t)p;
	} else if (IS("upload"))
		r = f.cuGraphUpload(PTR(1), NULL);
	else if (IS("launch"))
		r = f.cuGraphLaunch(PTR(1), NULL);
	else if (IS("destroy-exec"))
		r = f.cuGraphExecDestroy(PTR(1));
	else if (IS("trim-graphs"))
		r = f.cuDeviceGraphMemTrim((int)NUM(1));
	else if (IS("stream")) {
		r = f.cuStreamCreate(&p, 0);
		o->value = (uintptr_t)p;
	} else if (IS("capture"))
		r = f.cuStreamBeginCapture_v2(PTR(1), 0);
	else if (IS("end-capture")) {
		r = f.cuStreamEndCapture(PTR(1), &p);
		o->value = (uintptr_t)p;
	} else
		*known = false;
	return r;
}

static CUresult contexts(int argc, char **argv, struct outcome *o, bool *known)
{
	void *p = NULL;
	CUresult r = CUDA_SUCCESS;
	const void *const *table;
	CUuuid id = {{0}};
	if (IS("retain-primary")) {
		r = f.cuDevicePrimaryCtxRetain(&p, (int)NUM(1));
		if (r == CUDA_SUCCESS)
			f.cuCtxSetCurrent(p);
	} else if (IS("retain-private")) {
		cuGetExportTable((const void **)&table, &id);
		r = ((CUresult(*)(CUcontext *, CUdevice))table[0])(&p, 0);
		if (r == CUDA_SUCCESS)
			f.cuCtxSetCurrent(p);
	} else if (IS("destroy-private")) {
		cuGetExportTable((const void **)&table, &id);
		r = ((CUresult(*)(CUcontext))table[1])(PTR(1));
	} else if (IS("release-primary"))
		r = f.cuDevicePrimaryCtxRelease_v2((int)NUM(1));
	else if (IS("reset-primary"))
		r = f.cuDevicePrimaryCtxReset_v2((int)NUM(1));
	else if (IS("context")) {
		r = f.cuCtxCreate_v2(&p, 0, (int)NUM(1));
		o->value = (uintptr_t)p;
	} else if (IS("destroy-context"))
		r = f.cuCtxDestroy_v2(PTR(1));
	else if (IS("heap"))
		r = f.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, NUM(1));
	else if (IS("ipc-get")) {
		CUipcMemHandle h;
		r = f.cuIpcGetMemHandle(&h, NUM(1));
		for (int i = 0; r == CUDA_SUCCESS && i < 24; i++)
			sprintf(o->text + 2 * i, "%02x", (unsigned char)h.reserved[i]);
	} else if (IS("ipc-open")) {
		CUipcMemHandle h = {{0}};
		CUdeviceptr q = 0;
		for (int i = 0; i < 24; i++) {
			unsigned int b = 0;
			sscanf(argv[1] + 2 * i, "%2x", &b);
			h.reserved[i] = (char)b;
		}
		r = f.cuIpcOpenMemHandle_v2(&q, h, 1);
		o->value = q;
	} else if (IS("ipc-close"))
		r = f.cuIpcCloseMemHandle(NUM(1));
	else
		*known = false;
	return r;
}

static CUresult tell_nvml(struct outcome *o, unsigned int index)
{
	nvmlDevice_t d;
	nvmlMemory_t m;
	nvmlMemory_v2_t m2 = {.version = 2};
	if (nvmlDeviceGetHandleByIndex_v2(index, &d) || nvmlDeviceGetMemoryInfo(d, &m) || nvmlDeviceGetMemoryInfo_v2(d, &m2))
		return -1;
	bool agree = m.total == m2.total && m.free == m2.free && m.used == m2.used && m2.reserved + m2.free + m2.used == m2.total;
	snprintf(o->text, sizeof o->text, "free %s total %s used %s%s", size_text(m.free), size_text(m.total), size_text(m.used), agree ? "" : " DISAGREE");
	return CUDA_SUCCESS;
}

static CUresult tell_processes(struct outcome *o)
{
	nvmlDevice_t d;
	nvmlProcessInfo_v1_t v1[64];
	nvmlProcessInfo_v2_t v3[64], none[64];
	nvmlProcessDetail_v1_t details[64];
	nvmlProcessDetailList_t list = {.version = 1, .numProcArrayEntries = 64, .procArray = details};
	nvmlProcessUtilizationSample_t samples[64];
	unsigned int n1 = 64, n3 = 64, graphics = 64, mps = 64, asked = 0, busy = 64;
	nvmlDeviceGetHandleByIndex_v2(0, &d);
	if (nvmlDeviceGetComputeRunningProcesses(d, &n1, v1) || nvmlDeviceGetComputeRunningProcesses_v3(d, &n3, v3) ||
	    nvmlDeviceGetGraphicsRunningProcesses_v3(d, &graphics, none) || nvmlDeviceGetMPSComputeRunningProcesses_v3(d, &mps, none) ||
	    nvmlDeviceGetRunningProcessDetailList(d, &list))
		return -1;
	nvmlReturn_t sizing = nvmlDeviceGetComputeRunningProcesses_v3(d, &asked, NULL);
	if (nvmlDeviceGetProcessUtilization(d, samples, &busy, 0) != NVML_SUCCESS)
		busy = 0;
	uint64_t sum = 0, mine = 0;
	for (unsigned int i = 0; i < n3; i++) {
		sum += v3[i].usedGpuMemory;
		mine = v3[i].pid == (unsigned int)getpid() ? v3[i].usedGpuMemory : mine;
	}
	snprintf(o->text, sizeof o->text, "%u processes use %s, this one %s; graphics %u, mps %u, details %u, utilisation %u, sizing %s", n3,
		 size_text(sum), size_text(mine), graphics, mps, list.numProcArrayEntries, busy,
		 sizing == (n3 ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS) && asked == n3 && n1 == n3 ? "right" : "WRONG");
	return CUDA_SUCCESS;
}

static CUresult queries(int argc, char **argv, struct outcome *o, bool *known)
{
	size_t free_ = 0, total = 0;
	CUresult r = CUDA_SUCCESS;
	if (IS("info")) {
		r = f.cuMemGetInfo_v2(&free_, &total);
		if (r == CUDA_SUCCESS)
			snprintf(o->text, sizeof o->text, "free %s total %s", size_text(free_), size_text(total));
	} else if (IS("info-null"))
		return f.cuMemGetInfo_v2(NULL, NULL);
	else if (IS("info-half"))
		return f.cuMemGetInfo_v2(&free_, NULL);
	else if (IS("total")) {
		r = f.cuDeviceTotalMem_v2(&total, (int)NUM(1));
		if (r == CUDA_SUCCESS)
			snprintf(o->text, sizeof o->text, "%s", size_text(total));
	} else if (IS("total-null"))
		return f.cuDeviceTotalMem_v2(NULL, 0);
	else if (IS("nvml"))
		return tell_nvml(o, (unsigned int)NUM(1));
	else if (IS("processes"))
		return tell_processes(o);
	else
		*known = false;
	return r;
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static CUresult start(CUfunction k, const char *how)
{
	CUlaunchConfig c = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
	if (strcmp(how, "cooperative") == 0)
		return f.cuLaunchCooperativeKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL);
	if (strcmp(how, "ex") == 0)
		return f.cuLaunchKernelEx(&c, k, NULL, NULL);
	if (strcmp(how, "grid") == 0)
		return f.cuLaunchGridAsync(k, 1, 1, NULL);
	return f.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

// busy MICROSECONDS SECONDS HOW launches kernels of that length for that long.
static CUresult busy(int argc, char **argv)
{
	char name[32];
	CUfunction k;
	CUgraph g;
	CUgraphExec e = NULL;
	snprintf(name, sizeof name, "busy_%s", argv[1]);
	f.cuModuleGetFunction(&k, NULL, name);
	const char *how = argc > 3 ? argv[3] : "kernel";
	if (strcmp(how, "graph") == 0) {
		CUstream s;
		f.cuStreamCreate(&s, 0);
		f.cuStreamBeginCapture_v2(s, 0);
		f.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL);
		f.cuStreamEndCapture(s, &g);
		f.cuGraphInstantiateWithFlags(&e, g, 0);
	}
	for (double end = seconds() + atof(argv[2]); seconds() < end;) {
		CUresult r = e ? f.cuGraphLaunch(e, NULL) : start(k, how);
		if (r != CUDA_SUCCESS)
			return r;
		if (strcmp(how, "sync") == 0)
			f.cuCtxSynchronize();
	}
	return f.cuCtxSynchronize();
}

struct busy_thread {
	CUcontext ctx;
	CUfunction kernel;
	double end;
	useconds_t gap;
	CUstream stream; // NULL: one of its own
};

static void *busy_body(void *arg)
{
	struct busy_thread *b = arg;
	CUstream s = b->stream;
	CUresult r = f.cuCtxSetCurrent(b->ctx);
	if (s == NULL)
		f.cuStreamCreate(&s, 0);
	while (r == CUDA_SUCCESS && seconds() < b->end) {
		r = f.cuLaunchKernel(b->kernel, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL);
		f.cuStreamSynchronize(s);
		usleep(b->gap);
	}
	return (void *)(uintptr_t)r;
}

// busy-threads N MICROSECONDS SECONDS GAP launches from N threads, on a stream each,
// that do something else for GAP microseconds after each launch.
static CUresult busy_threads(int argc, char **argv)
{
	pthread_t t[64];
	struct busy_thread b = {.end = seconds() + atof(argv[3]), .gap = (useconds_t)NUM(4)};
	char name[32];
	void *r = NULL;
	snprintf(name, sizeof name, "busy_%s", argv[2]);
	f.cuModuleGetFunction(&b.kernel, NULL, name);
	f.cuDevicePrimaryCtxRetain(&b.ctx, 0);
	for (uint64_t i = 0; i < NUM(1); i++)
		pthread_create(&t[i], NULL, busy_body, &b);
	for (uint64_t i = 0; i < NUM(1); i++)
		pthread_join(t[i], &r);
	return (CUresult)(uintptr_t)r;
}

// busy-beside MICROSECONDS SECONDS KERNEL STREAM launches such kernels from one thread
// and empty ones from another; STREAM is 2, the default stream per thread, or 0, one each.
static CUresult busy_beside(int argc, char **argv)
{
	pthread_t t[2];
	struct busy_thread b[2] = {{.gap = 0}, {.gap = 25000}};
	char name[32];
	void *r = NULL;
	snprintf(name, sizeof name, "%s_%s", argv[3], argv[1]);
	f.cuModuleGetFunction(&b[0].kernel, NULL, name);
	f.cuModuleGetFunction(&b[1].kernel, NULL, "busy_0");
	for (int i = 0; i < 2; i++) {
		f.cuDevicePrimaryCtxRetain(&b[i].ctx, 0);
		b[i].stream = PTR(4);
		b[i].end = seconds() + atof(argv[2]);
		pthread_create(&t[i], NULL, busy_body, &b[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], &r);
	return (CUresult)(uintptr_t)r;
}

static void *thread_body(void *arg)
{
	CUcontext ctx;
	uint64_t size = *(uint64_t *)arg;
	f.cuDevicePrimaryCtxRetain(&ctx, 0);
	f.cuCtxSetCurrent(ctx);
	uintptr_t granted = 0;
	CUdeviceptr p;
	for (int i = 0; i < 64; i++)
		granted += f.cuMemAlloc_v2(&p, size) == CUDA_SUCCESS;
	return (void *)granted;
}

// threads N SIZE: each of N threads allocates SIZE 64 times.
static CUresult threads(int argc, char **argv, struct outcome *o)
{
	pthread_t t[64];
	uint64_t size = NUM(2);
	int n = (int)NUM(1);
	uintptr_t granted = 0;
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, thread_body, &size);
	for (int i = 0; i < n; i++) {
		void *g;
		pthread_join(t[i], &g);
		granted += (uintptr_t)g;
	}
	snprintf(o->text, sizeof o->text, "%llu granted", (unsigned long long)granted);
	return CUDA_SUCCESS;
}

static void *ask_for_ever(void *device)
{
	for (unsigned int n = 0;;)
		nvmlDeviceGetGraphicsRunningProcesses_v3(device, &n, NULL);
	return NULL;
}

// fork-while-asked N: children ask NVML, forked while other threads do.
static CUresult fork_while_asked(int argc, char **argv)
{
	pthread_t t;
	nvmlDevice_t d;
	unsigned int n = 0;
	CUresult r = CUDA_SUCCESS;
	nvmlDeviceGetHandleByIndex_v2(0, &d);
	for (int i = 0; i < 2; i++)
		pthread_create(&t, NULL, ask_for_ever, d);
	for (uint64_t i = 0; i < NUM(1) && r == CUDA_SUCCESS; i++) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			alarm(10); // a child that waits for a lock waits for ever
			_exit(nvmlDeviceGetGraphicsRunningProcesses_v3(d, &n, NULL));
		}
		waitpid(child, &status, 0);
		r = (CUresult)status;
	}
	return r;
}

static _Atomic bool destroying;

static void *sync_meanwhile(void *ctx)
{
	f.cuCtxSetCurrent(ctx);
	while (destroying)
		f.cuCtxSynchronize();
	return NULL;
}

// destroy-pools N: pools with a block each are destroyed while another thread
// synchronises. The block stays charged.
static CUresult destroy_pools(int argc, char **argv, struct outcome *o)
{
	pthread_t t;
	CUcontext ctx;
	CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	size_t free_, total;
	int wrong = 0;
	f.cuDevicePrimaryCtxRetain(&ctx, 0);
	destroying = true;
	pthread_create(&t, NULL, sync_meanwhile, ctx);
	for (uint64_t i = 0; i < NUM(1); i++) {
		CUmemoryPool pool;
		CUdeviceptr p;
		f.cuMemPoolCreate(&pool, &props);
		f.cuMemAllocFromPoolAsync(&p, 2 << 20, pool, NULL);
		f.cuMemPoolDestroy(pool);
		f.cuMemGetInfo_v2(&free_, &total);
		wrong += total - free_ != 2 << 20;
		f.cuMemFree_v2(p);
	}
	destroying = false;
	pthread_join(t, NULL);
	snprintf(o->text, sizeof o->text, "%d times the block was not charged", wrong);
	return CUDA_SUCCESS;
}

static void *first_call(void *together)
{
	CUdeviceptr p;
	pthread_barrier_wait(together);
	return (void *)(uintptr_t)f.cuMemAlloc_v2(&p, 1 << 20);
}

// first-calls N: N threads call the driver together, before anybody has.
static CUresult first_calls(int argc, char **argv)
{
	pthread_t t[64];
	pthread_barrier_t together;
	void *r = NULL;
	int n = (int)NUM(1);
	pthread_barrier_init(&together, NULL, (unsigned int)n);
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, first_call, &together);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], &r);
	return (CUresult)(uintptr_t)r;
}

CUresult run_other(int argc, char **argv, struct outcome *o, bool *known)
{
	CUresult (*const groups[])(int, char **, struct outcome *, bool *) = {graphs, contexts, queries};
	for (int i = 0; i < 3; i++) {
		*known = true;
		CUresult done = groups[i](argc, argv, o, known);
		if (*known)
			return done;
	}
	CUresult r = CUDA_SUCCESS;
	*known = true;
	if (IS("busy"))
		return busy(argc, argv);
	if (IS("fault")) {
		CUfunction k;
		f.cuModuleGetFunction(&k, NULL, "fault");
		return f.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	}
	if (IS("busy-threads"))
		return busy_threads(argc, argv);
	if (IS("busy-beside"))
		return busy_beside(argc, argv);
	if (IS("busy-on")) { // MICROSECONDS TIMES STREAM
		char name[32];
		CUfunction k;
		snprintf(name, sizeof name, "busy_%s", argv[1]);
		f.cuModuleGetFunction(&k, NULL, name);
		for (uint64_t i = 0; i < NUM(2) && r == CUDA_SUCCESS; i++)
			r = f.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, PTR(3), NULL, NULL);
		return r;
	}
	if (IS("fork-while-asked"))
		return fork_while_asked(argc, argv);
	if (IS("destroy-pools"))
		return destroy_pools(argc, argv, o);
	if (IS("first-calls"))
		return first_calls(argc, argv);
	if (IS("threads"))
		return threads(argc, argv, o);
	if (IS("sleep")) {
		usleep((useconds_t)(NUM(1) * 1000));
		return CUDA_SUCCESS;
	}
	if (IS("address") || IS("symbol")) {
		snprintf(o->text, sizeof o->text, "%s", IS("symbol") ? symbol_text(argv[1]) : address_text(argv[1], (int)NUM(2), NUM(3)));
		return CUDA_SUCCESS;
	}
	if (IS("exec")) {
		execl("/proc/self/exe", "probe", "link", (char *)NULL);
		return -1;
	}
	if (IS("churn")) // until killed
		for (CUdeviceptr p;;)
			if (f.cuMemAlloc_v2(&p, NUM(1)) == CUDA_SUCCESS && NUM(2) == 0)
				f.cuMemFree_v2(p);
	*known = false;
	return 0;
}

CUresult run_command(int argc, char **argv, struct outcome *o)
{
	bool known;
	CUresult r = run_memory(argc, argv, o, &known);
	if (known)
		return r;
	r = run_forms(argc, argv, o, &known);
	if (known)
		return r;
	r = run_other(argc, argv, o, &known);
	if (known)
		return r;
	printf("unknown command %s\n", argv[0]);
	exit(4);
}
