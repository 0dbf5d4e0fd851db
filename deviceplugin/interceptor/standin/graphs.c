// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: graphs. Allocation nodes take memory at the first upload or launch,
// from a pool per device that keeps it until it is trimmed.

#include "driver.h"

#define MAX_NODES 256

struct node {
	int type; // 0 kernel, else CU_GRAPH_NODE_TYPE_*
	struct graph *graph, *child;
	CUDA_MEM_ALLOC_NODE_PARAMS alloc;
	CUdeviceptr ptr;
	uint64_t ns;
	struct node *after[16];
	size_t after_count;
};
struct graph {
	struct node *nodes[MAX_NODES];
	size_t count;
};
struct exec {
	uint64_t peak[MAX_GPUS], left[MAX_GPUS], ns;
	struct graph *graph;
	bool held;
};
static uint64_t reserved[MAX_GPUS], used[MAX_GPUS];

API CUresult cuGraphCreate(CUgraph *g, unsigned int flags)
{
	(void)flags;
	*g = calloc(1, sizeof(struct graph));
	return CUDA_SUCCESS;
}

static struct node *add(struct graph *g, const CUgraphNode *after, size_t n)
{
	struct node *d = calloc(1, sizeof *d);
	d->graph = g;
	for (size_t i = 0; i < n && i < 16; i++)
		d->after[d->after_count++] = after[i];
	return g->nodes[g->count++] = d;
}

// While capturing, each node follows the one before.
static struct node *add_last(struct graph *g)
{
	CUgraphNode last = g->count ? g->nodes[g->count - 1] : NULL;
	return add(g, &last, g->count ? 1 : 0);
}

static void make_alloc(struct node *d, uint64_t size, int dev)
{
	d->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	d->alloc.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev};
	d->alloc.bytesize = size;
	d->ptr = d->alloc.dptr = new_addresses(dev, size);
}

CUresult graph_alloc_node(struct graph *g, uint64_t size, int dev, CUdeviceptr *out)
{
	struct node *d = add_last(g);
	make_alloc(d, size, dev);
	*out = d->ptr;
	return CUDA_SUCCESS;
}

CUresult graph_free_node(struct graph *g, CUdeviceptr ptr)
{
	struct node *d = add_last(g);
	d->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
	d->ptr = ptr;
	return CUDA_SUCCESS;
}

void graph_kernel_node(struct graph *g, uint64_t ns) { add_last(g)->ns = ns; }

API CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	pthread_mutex_lock(&big);
	struct node *d = add(g, after, n);
	make_alloc(d, p->bytesize, p->poolProps.location.id);
	p->dptr = d->ptr;
	*out = d;
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, CUdeviceptr ptr)
{
	struct node *d = add(g, after, n);
	d->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
	d->ptr = ptr;
	*out = d;
	return CUDA_SUCCESS;
}

API CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, CUgraph child)
{
	struct node *d = add(g, after, n);
	d->type = CU_GRAPH_NODE_TYPE_GRAPH;
	d->child = child;
	*out = d;
	return CUDA_SUCCESS;
}

API CUresult cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, CUgraphNodeParams *p)
{
	if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return cuGraphAddMemAllocNode(out, g, after, n, &p->alloc);
	if (p->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return cuGraphAddMemFreeNode(out, g, after, n, p->free.dptr);
	return CUDA_ERROR_NOT_SUPPORTED;
}
API CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after, const void *edges, size_t n, CUgraphNodeParams *p)
{
	(void)edges;
	return cuGraphAddNode(out, g, after, n, p);
}
API CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph g, const CUgraphNode *after, const void *edges, size_t n, CUgraphNodeParams *p)
{
	(void)edges;
	return cuGraphAddNode(out, g, after, n, p);
}

API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
	struct graph *g = graph;
	for (size_t i = 0; nodes != NULL && i < *n && i < g->count; i++)
		nodes[i] = g->nodes[i];
	*n = g->count;
	return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetType(CUgraphNode n, int *type)
{
	*type = ((struct node *)n)->type;
	return CUDA_SUCCESS;
}
API CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *n)
{
	struct node *d = node;
	for (size_t i = 0; out != NULL && i < *n && i < d->after_count; i++)
		out[i] = d->after[i];
	*n = d->after_count;
	return CUDA_SUCCESS;
}
API CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph *out)
{
	*out = ((struct node *)n)->child;
	return CUDA_SUCCESS;
}
API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
	*out = ((struct node *)n)->alloc;
	return CUDA_SUCCESS;
}
API CUresult cuGraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr *out)
{
	*out = ((struct node *)n)->ptr;
	return CUDA_SUCCESS;
}

static struct node *alloc_of(struct graph *g, CUdeviceptr ptr)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && g->nodes[i]->ptr == ptr)
			return g->nodes[i];
	return NULL;
}

static void measure(struct exec *e, struct graph *g)
{
	for (size_t i = 0; i < g->count; i++) {
		struct node *d = g->nodes[i];
		e->ns += d->ns;
		struct node *of = d->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? alloc_of(g, d->ptr) : d;
		if (d->type == CU_GRAPH_NODE_TYPE_GRAPH)
			measure(e, d->child);
		if (of == NULL || of->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			continue;
		int dev = of->alloc.poolProps.location.id;
		uint64_t n = round_up(of->alloc.bytesize, PAGE);
		e->left[dev] = of == d ? e->left[dev] + n : e->left[dev] - n;
		e->peak[dev] = e->left[dev] > e->peak[dev] ? e->left[dev] : e->peak[dev];
	}
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
	(void)flags;
	struct exec *e = calloc(1, sizeof *e);
	e->graph = g;
	measure(e, g);
	*out = e;
	return CUDA_SUCCESS;
}
API CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t n)
{
	(void)error, (void)log, (void)n;
	return cuGraphInstantiateWithFlags(out, g, 0);
}
API CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log, size_t n) { return cuGraphInstantiate_v2(out, g, error, log, n); }

static CUresult make_room(struct exec *e)
{
	for (int dev = 0; dev < machine_gpus(); dev++) {
		uint64_t in_use = used[dev] - (e->held ? e->left[dev] : 0);
		if (in_use + e->peak[dev] <= reserved[dev])
			continue;
		uint64_t grow = in_use + e->peak[dev] - reserved[dev];
		if (!machine_take(dev, grow))
			return CUDA_ERROR_OUT_OF_MEMORY;
		reserved[dev] += grow;
	}
	return CUDA_SUCCESS;
}

API CUresult cuGraphUpload(CUgraphExec exec, CUstream s)
{
	(void)s;
	pthread_mutex_lock(&big);
	CUresult r = make_room(exec);
	pthread_mutex_unlock(&big);
	return r;
}
API CUresult cuGraphUpload_ptsz(CUgraphExec e, CUstream s) { return cuGraphUpload(e, s); }

API CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	CUresult r = cuGraphInstantiateWithFlags(out, g, 0);
	return r == CUDA_SUCCESS && p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD ? cuGraphUpload(*out, p->hUploadStream) : r;
}
API CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p) { return cuGraphInstantiateWithParams(out, g, p); }

API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct exec *e = exec;
	struct stream *s = stream_of(stream);
	pthread_mutex_lock(&big);
	CUresult r = make_room(e);
	if (r == CUDA_SUCCESS && !e->held) {
		for (int dev = 0; dev < machine_gpus(); dev++) {
			used[dev] += e->left[dev];
			e->held = e->held || e->left[dev] > 0;
		}
		for (size_t i = 0; i < e->graph->count; i++) {
			struct node *d = e->graph->nodes[i];
			bool freed = false;
			for (size_t j = 0; j < e->graph->count; j++)
				freed = freed || (e->graph->nodes[j]->type == CU_GRAPH_NODE_TYPE_MEM_FREE && e->graph->nodes[j]->ptr == d->ptr);
			if (d->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !freed)
				block_add(d->ptr, d->alloc.bytesize, GRAPH_PTR, d->alloc.poolProps.location.id, e);
		}
	}
	if (r == CUDA_SUCCESS && e->ns > 0)
		s->busy_until = machine_run(s->dev, s->busy_until, e->ns);
	pthread_mutex_unlock(&big);
	return r;
}
API CUresult cuGraphLaunch_ptsz(CUgraphExec e, CUstream s) { return cuGraphLaunch(e, s); }

void graph_block_freed(struct block *b)
{
	struct exec *e = b->of;
	used[b->dev] -= round_up(b->size, PAGE);
	e->held = false;
}

API CUresult cuGraphExecDestroy(CUgraphExec e)
{
	(void)e; // kept: blocks may refer to it
	return CUDA_SUCCESS;
}
API CUresult cuGraphDestroy(CUgraph g)
{
	(void)g;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetGraphMemAttribute(CUdevice d, int attribute, void *value)
{
	if (d < 0 || d >= machine_gpus())
		return CUDA_ERROR_INVALID_DEVICE;
	if (fault != CUDA_SUCCESS)
		return fault;
	*(uint64_t *)value = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ? used[d] : reserved[d];
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGraphMemTrim(CUdevice d)
{
	pthread_mutex_lock(&big);
	machine_give(d, reserved[d] - used[d]);
	reserved[d] = used[d];
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
