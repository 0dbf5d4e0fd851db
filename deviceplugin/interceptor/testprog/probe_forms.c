// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: the probe's commands that call other forms of a function: those of
// API 2.0 with 32-bit sizes, and those with the parameters of other CUDA versions.

#include "functions.h"
#include "probe.h"

#include <stdio.h>
#include <string.h>

static CUresult forms_of_memory(int argc, char **argv, struct outcome *o, bool *known)
{
	CUDA_ARRAY_DESCRIPTOR_v1 flat = {(unsigned int)NUM(1), (unsigned int)NUM(2), 0x20, 1};
	CUDA_ARRAY3D_DESCRIPTOR_v1 deep = {(unsigned int)NUM(1), (unsigned int)NUM(2), (unsigned int)NUM(3), 0x20, 1, 0};
	CUmemLocation where = {(int)NUM(1), (int)NUM(2)};
	CUdeviceptr_v1 p = 0;
	void *a = NULL;
	unsigned int pitch;
	CUresult r = CUDA_SUCCESS;
	if (IS("alloc1"))
		r = f.cuMemAlloc(&p, (unsigned int)NUM(1));
	else if (IS("free1"))
		r = f.cuMemFree((CUdeviceptr_v1)NUM(1));
	else if (IS("pitch1"))
		r = f.cuMemAllocPitch(&p, &pitch, (unsigned int)NUM(1), (unsigned int)NUM(2), 4);
	else if (IS("array1"))
		r = f.cuArrayCreate(&a, &flat);
	else if (IS("array3d1"))
		r = f.cuArray3DCreate(&a, &deep);
	else if (IS("default-pool-at"))
		r = f.cuMemGetDefaultMemPool(&a, &where, 1);
	else if (IS("current-pool"))
		r = f.cuDeviceGetMemPool(&a, 0);
	else if (IS("bind2"))
		r = f.cuMulticastBindMem_v2(NUM(1), 0, 0, NUM(2), 0, NUM(3), 0);
	else if (IS("bind-addr2"))
		r = f.cuMulticastBindAddr_v2(NUM(1), 0, 0, NUM(2), NUM(3), 0);
	else
		*known = false;
	o->value = p ? p : (uintptr_t)a;
	return r;
}

static CUresult forms_of_graphs(int argc, char **argv, struct outcome *o, bool *known)
{
	CUgraphNodeParams n = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	void *p = NULL, *after = PTR(3);
	CUresult r = CUDA_SUCCESS;
	n.alloc.poolProps = (CUmemPoolProps){.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	n.alloc.bytesize = NUM(2);
	if (IS("any-node1"))
		r = f.cuGraphAddNode(&p, PTR(1), (const CUgraphNode *)&after, after ? 1 : 0, &n);
	else if (IS("any-node3"))
		r = f.cuGraphAddNode_v3(&p, PTR(1), (const CUgraphNode *)&after, NULL, after ? 1 : 0, &n);
	else if (IS("instantiate1"))
		r = f.cuGraphInstantiate(&p, PTR(1), NULL, NULL, 0);
	else if (IS("instantiate2"))
		r = f.cuGraphInstantiate_v2(&p, PTR(1), NULL, NULL, 0);
	else
		*known = false;
	o->value = (uintptr_t)p;
	return r;
}

static CUresult forms_of_contexts(int argc, char **argv, struct outcome *o, bool *known)
{
	void *p = NULL;
	unsigned int a = 0, b = 0;
	CUresult r = CUDA_SUCCESS;
	if (IS("context1"))
		r = f.cuCtxCreate(&p, 0, (int)NUM(1));
	else if (IS("context3"))
		r = f.cuCtxCreate_v3(&p, NULL, 0, 0, (int)NUM(1));
	else if (IS("context4"))
		r = f.cuCtxCreate_v4(&p, NULL, 0, (int)NUM(1));
	else if (IS("destroy-context1"))
		r = f.cuCtxDestroy(PTR(1));
	else if (IS("release-primary1"))
		r = f.cuDevicePrimaryCtxRelease((int)NUM(1));
	else if (IS("reset-primary1"))
		r = f.cuDevicePrimaryCtxReset((int)NUM(1));
	else if (IS("info1")) {
		r = f.cuMemGetInfo(&a, &b);
		snprintf(o->text, sizeof o->text, "free %s total %s", size_text(a), size_text(b));
	} else if (IS("total1")) {
		r = f.cuDeviceTotalMem(&a, (int)NUM(1));
		snprintf(o->text, sizeof o->text, "%s", size_text(a));
	} else
		*known = false;
	o->value = (uintptr_t)p;
	return r;
}

CUresult run_forms(int argc, char **argv, struct outcome *o, bool *known)
{
	CUresult (*const groups[])(int, char **, struct outcome *, bool *) = {forms_of_memory, forms_of_graphs, forms_of_contexts};
	for (int i = 0; i < 3; i++) {
		*known = true;
		CUresult r = groups[i](argc, argv, o, known);
		if (*known)
			return r;
	}
	return 0;
}
