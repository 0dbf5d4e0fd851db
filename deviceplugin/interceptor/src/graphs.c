// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Memory of graphs. Allocation nodes take memory when an executable graph is
// first uploaded or launched, from a pool per device that keeps it until it is
// trimmed. What is charged is what that pool has reserved. Before a graph first
// runs, the peak of its allocation nodes is reserved, so that a graph that does
// not fit is refused as a whole and not in its middle.

#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_DEPTH = 8 };

static uint64_t charged[FS_MAX_DEVICES];
static uint64_t held[FS_MAX_DEVICES]; // what graphs that ran leave allocated, at most
static uint32_t flying[FS_MAX_DEVICES];
_Atomic uint32_t fs_graphs_active;

void fs_graphs_forked(void)
{
	memset(charged, 0, sizeof charged);
	memset(held, 0, sizeof held);
	memset(flying, 0, sizeof flying);
	atomic_store(&fs_graphs_active, 0);
}

static uint64_t attribute(int dev, int which, uint64_t otherwise)
{
	uint64_t n = 0;
	if (!HAS(cuDeviceGetGraphMemAttribute) ||
	    CALL(cuDeviceGetGraphMemAttribute)(fs_ordinal_of(dev), which, &n) != CUDA_SUCCESS)
		return otherwise;
	return n;
}

// reserved: after a fault the driver answers nothing, while the memory stays taken.
static uint64_t reserved(int dev) { return attribute(dev, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, charged[dev]); }

// settle makes the charge equal to what the device's graph pool has reserved;
// under fs_state_lock.
static void settle(int dev)
{
	uint64_t now = reserved(dev);
	if (now > charged[dev]) {
		if (!fs_charge(dev, now - charged[dev]))
			fs_charge_anyway(dev, now - charged[dev]); // it is taken: count it
		charged[dev] = now;
	} else if (flying[dev] == 0 && now < charged[dev]) {
		fs_uncharge(dev, charged[dev] - now);
		charged[dev] = now;
	}
}

void fs_graphs_settle(int dev)
{
	if (dev < 0)
		return;
	fs_lock(&fs_state_lock);
	settle(dev);
	fs_unlock(&fs_state_lock);
}

void fs_graphs_reclaim(int dev)
{
	CUresult (*trim)(CUdevice) = (CUresult(*)(CUdevice))fs_real[FS_cuDeviceGraphMemTrim];
	if (dev < 0 || atomic_load(&fs_graphs_active) == 0 || trim == NULL)
		return;
	int mode = fs_aside();
	trim(fs_ordinal_of(dev));
	fs_graphs_settle(dev);
	fs_aside_ends(mode);
}

// ---- The peak of a graph's allocation nodes.

struct node {
	CUgraphNode handle;
	uint64_t adds;   // bytes of an allocation node
	int dev;         // that it takes them of
	CUdeviceptr ptr; // of an allocation or a free node
	bool frees, done;
};

struct walk {
	uint64_t live[FS_MAX_DEVICES], peak[FS_MAX_DEVICES];
	bool foreign; // it allocates on a GPU that is not in the limits
	int depth;
};

static void walk_graph(struct walk *w, CUgraph graph);

static void read_node(struct node *n, struct walk *w)
{
	int type = 0;
	CUgraph child;
	if (CALL(cuGraphNodeGetType)(n->handle, &type) != CUDA_SUCCESS)
		return;
	if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
		CUDA_MEM_ALLOC_NODE_PARAMS p = {0};
		if (CALL(cuGraphMemAllocNodeGetParams)(n->handle, &p) != CUDA_SUCCESS)
			return;
		int dev = fs_device_of_location(&p.poolProps.location);
		w->foreign = w->foreign || dev == FS_DEV_FOREIGN;
		if (dev < 0)
			return;
		n->adds = fs_round_up(p.bytesize, fs_granularity(dev));
		n->dev = dev;
		n->ptr = p.dptr;
	} else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
		n->frees = CALL(cuGraphMemFreeNodeGetParams)(n->handle, &n->ptr) == CUDA_SUCCESS;
	} else if (type == CU_GRAPH_NODE_TYPE_GRAPH && HAS(cuGraphChildGraphNodeGetGraph) &&
		   CALL(cuGraphChildGraphNodeGetGraph)(n->handle, &child) == CUDA_SUCCESS) {
		walk_graph(w, child);
	}
}

static bool ready(const struct node *nodes, size_t count, const struct node *n)
{
	CUgraphNode before[64];
	size_t m = 64;
	if (!HAS(cuGraphNodeGetDependencies) || CALL(cuGraphNodeGetDependencies)(n->handle, before, &m) != CUDA_SUCCESS)
		return true;
	for (size_t i = 0; i < m && i < 64; i++)
		for (size_t j = 0; j < count; j++)
			if (nodes[j].handle == before[i] && !nodes[j].done)
				return false;
	return true;
}

static void step(struct walk *w, const struct node *nodes, size_t count, const struct node *n)
{
	if (!n->frees) {
		w->live[n->dev] = fs_add(w->live[n->dev], n->adds);
		w->peak[n->dev] = w->live[n->dev] > w->peak[n->dev] ? w->live[n->dev] : w->peak[n->dev];
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (nodes[i].ptr == n->ptr && nodes[i].adds > 0) {
			w->live[nodes[i].dev] = fs_sub(w->live[nodes[i].dev], nodes[i].adds);
			return;
		}
}

// run goes through the nodes in an order that their dependencies allow, and
// allocates as early and frees as late as that order permits.
static void run(struct walk *w, struct node *nodes, size_t count)
{
	for (size_t left = count, moved = 1; left > 0 && moved > 0;) {
		moved = 0;
		for (int frees = 0; frees < 2 && moved == 0; frees++)
			for (size_t i = 0; i < count; i++) {
				struct node *n = &nodes[i];
				if (n->done || n->frees != (frees == 1) || !ready(nodes, count, n))
					continue;
				n->done = true;
				left--;
				moved++;
				step(w, nodes, count, n);
			}
	}
}

static void walk_graph(struct walk *w, CUgraph graph)
{
	size_t count = 0;
	if (w->depth >= MAX_DEPTH || CALL(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
		return;
	size_t bytes = count * (sizeof(CUgraphNode) + sizeof(struct node));
	CUgraphNode *handles = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (handles == MAP_FAILED)
		return;
	struct node *nodes = (struct node *)(handles + count), *some = nodes;
	w->depth++;
	if (CALL(cuGraphGetNodes)(graph, handles, &count) == CUDA_SUCCESS) {
		bool any = false;
		for (size_t i = 0; i < count; i++) {
			nodes[i].handle = handles[i];
			read_node(&nodes[i], w);
			any = any || nodes[i].adds > 0;
		}
		if (any)
			run(w, some, count);
	}
	w->depth--;
	munmap(handles, bytes);
}

// ---- Instantiation, upload, launch.

static bool can_walk(void)
{
	return HAS(cuGraphGetNodes) && HAS(cuGraphNodeGetType) && HAS(cuGraphMemAllocNodeGetParams) &&
	       HAS(cuGraphMemFreeNodeGetParams);
}

// An executable graph has one entry per device that it allocates on.
static uint64_t exec_key(CUgraphExec exec, int dev) { return (uint64_t)(uintptr_t)exec ^ (uint64_t)dev << 56; }

// next_of returns the first of these devices from dev on, or FS_MAX_DEVICES.
static int next_of(CUgraphExec exec, int dev)
{
	fs_lock(&fs_state_lock);
	while (dev < FS_MAX_DEVICES && fs_find(FS_EXEC, exec_key(exec, dev)) == NULL)
		dev++;
	fs_unlock(&fs_state_lock);
	return dev;
}

// too_large returns a device on which the graph cannot fit, or FS_DEV_NONE.
static int too_large(const struct walk *w)
{
	for (int dev = 0; dev < FS_MAX_DEVICES; dev++)
		if (w->peak[dev] > 0 && w->peak[dev] > fs_limit_of(dev))
			return dev;
	return w->foreign ? FS_DEV_FOREIGN : FS_DEV_NONE;
}

static CUresult instantiated(CUresult r, CUgraphExec *exec, CUgraph graph, const char *call)
{
	struct walk w = {0};
	if (r != CUDA_SUCCESS || exec == NULL || !can_walk())
		return r;
	walk_graph(&w, graph);
	int without = too_large(&w);
	if (without != FS_DEV_NONE) {
		((CUresult(*)(CUgraphExec))fs_real[FS_cuGraphExecDestroy])(*exec);
		*exec = NULL;
		return fs_refuse(without, without < 0 ? 0 : w.peak[without], call);
	}
	fs_lock(&fs_state_lock);
	for (int dev = 0; dev < FS_MAX_DEVICES; dev++) {
		if (w.peak[dev] == 0)
			continue;
		atomic_store(&fs_graphs_active, 1);
		fs_insert(&(struct fs_entry){.kind = FS_EXEC, .key = exec_key(*exec, dev), .bytes = w.peak[dev], .size = w.live[dev], .dev = (int16_t)dev});
		settle(dev); // a driver may take the memory already here
	}
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t size)
{
	FS_ENTER(cuGraphInstantiate, (exec, graph, error, log, size));
	return instantiated(real(exec, graph, error, log, size), exec, graph, "cuGraphInstantiate");
}

FS_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t size)
{
	FS_ENTER(cuGraphInstantiate_v2, (exec, graph, error, log, size));
	return instantiated(real(exec, graph, error, log, size), exec, graph, "cuGraphInstantiate_v2");
}

FS_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	FS_ENTER(cuGraphInstantiateWithFlags, (exec, graph, flags));
	return instantiated(real(exec, graph, flags), exec, graph, "cuGraphInstantiateWithFlags");
}

// before reserves what a device's graph pool must grow by to run exec.
static CUresult before(CUgraphExec exec, int dev, const char *call)
{
	fs_lock(&fs_state_lock);
	struct fs_entry *e = fs_find(FS_EXEC, exec_key(exec, dev));
	if (e == NULL) {
		fs_unlock(&fs_state_lock);
		return CUDA_SUCCESS;
	}
	settle(dev);
	// A graph that runs again uses its own memory again, not what others hold.
	uint64_t used = attribute(dev, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, 0), others = fs_sub(held[dev], e->size);
	uint64_t idle = fs_sub(reserved(dev), e->flags && others < used ? others : used);
	uint64_t need = fs_sub(e->bytes, idle);
	flying[dev]++;
	fs_unlock(&fs_state_lock);
	bool fits = fs_take(dev, need);
	fs_lock(&fs_state_lock);
	e = fs_find(FS_EXEC, exec_key(exec, dev));
	if (fits) {
		charged[dev] = fs_add(charged[dev], need);
		if (e != NULL && e->flags == 0) {
			held[dev] = fs_add(held[dev], e->size);
			e->flags = 1;
		}
	} else {
		flying[dev]--;
	}
	fs_unlock(&fs_state_lock);
	return fits ? CUDA_SUCCESS : fs_refuse(dev, need, call);
}

static void after(CUgraphExec exec, int end)
{
	for (int dev = next_of(exec, 0); dev < end; dev = next_of(exec, dev + 1)) {
		fs_lock(&fs_state_lock);
		if (flying[dev] > 0)
			flying[dev]--;
		settle(dev);
		fs_unlock(&fs_state_lock);
	}
}

void fs_graph_after(CUgraphExec exec) { after(exec, FS_MAX_DEVICES); }

// fs_graph_before is called only where some graph allocates. What a graph does not
// get on one device it gives back on those before.
CUresult fs_graph_before(CUgraphExec exec, const char *call)
{
	for (int dev = next_of(exec, 0); dev < FS_MAX_DEVICES; dev = next_of(exec, dev + 1)) {
		CUresult r = before(exec, dev, call);
		if (r != CUDA_SUCCESS) {
			after(exec, dev);
			return r;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult upload(CUresult (*real)(CUgraphExec, CUstream), CUgraphExec exec, CUstream stream)
{
	if (atomic_load(&fs_graphs_active) == 0)
		return real(exec, stream);
	CUresult r = fs_graph_before(exec, "cuGraphUpload");
	if (r != CUDA_SUCCESS)
		return r;
	r = real(exec, stream);
	fs_graph_after(exec);
	return r;
}

FS_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	FS_ENTER(cuGraphUpload, (exec, stream));
	return upload(real, exec, stream);
}

FS_EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	FS_ENTER(cuGraphUpload_ptsz, (exec, stream));
	return upload(real, exec, stream);
}

FS_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	FS_ENTER(cuGraphExecDestroy, (exec));
	uint32_t devices = 0;
	for (int dev = next_of(exec, 0); dev < FS_MAX_DEVICES; dev = next_of(exec, dev + 1)) {
		struct fs_entry old;
		fs_lock(&fs_state_lock);
		if (fs_remove(FS_EXEC, exec_key(exec, dev), &old) && old.flags)
			held[dev] = fs_sub(held[dev], old.size);
		fs_unlock(&fs_state_lock);
		devices |= 1u << dev;
	}
	CUresult r = real(exec);
	for (int dev = 0; dev < FS_MAX_DEVICES; dev++)
		if (devices & 1u << dev)
			fs_graphs_settle(dev);
	return r;
}

// Asked to upload the graph as well, the driver would take its memory before it is
// charged; so the two are done one after the other.
static CUresult with_params(CUresult (*real)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *), CUgraphExec *exec, CUgraph graph,
			    CUDA_GRAPH_INSTANTIATE_PARAMS *params, enum fs_symbol real_upload)
{
	bool uploads = params != NULL && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	if (uploads)
		params->flags ^= CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	CUresult r = instantiated(real(exec, graph, params), exec, graph, "cuGraphInstantiateWithParams");
	if (!uploads)
		return r;
	params->flags ^= CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	if (r != CUDA_SUCCESS)
		return r;
	r = upload((CUresult(*)(CUgraphExec, CUstream))fs_real[real_upload], *exec, params->hUploadStream);
	if (r != CUDA_SUCCESS) {
		cuGraphExecDestroy(*exec);
		*exec = NULL;
	}
	return r;
}

FS_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	FS_ENTER(cuGraphInstantiateWithParams, (exec, graph, params));
	return with_params(real, exec, graph, params, FS_cuGraphUpload);
}

FS_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	FS_ENTER(cuGraphInstantiateWithParams_ptsz, (exec, graph, params));
	return with_params(real, exec, graph, params, FS_cuGraphUpload_ptsz);
}

FS_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	FS_ENTER(cuDeviceGraphMemTrim, (device));
	CUresult r = real(device);
	fs_graphs_settle(fs_device_of(device));
	return r;
}

// ---- Nodes. One that alone is larger than the limit is refused when added.

static CUresult check_node(const CUDA_MEM_ALLOC_NODE_PARAMS *p, const char *call)
{
	int dev = p ? fs_device_of_location(&p->poolProps.location) : FS_DEV_NONE;
	if (dev == FS_DEV_NONE)
		return CUDA_SUCCESS;
	if (dev == FS_DEV_FOREIGN || fs_round_up(p->bytesize, fs_granularity(dev)) > fs_limit_of(dev))
		return fs_refuse(dev, p->bytesize, call);
	return CUDA_SUCCESS;
}

FS_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	FS_ENTER(cuGraphAddMemAllocNode, (node, graph, after, n, params));
	CUresult r = check_node(params, "cuGraphAddMemAllocNode");
	return r == CUDA_SUCCESS ? real(node, graph, after, n, params) : r;
}

static CUresult check_any(const CUgraphNodeParams *p, const char *call)
{
	return p && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? check_node(&p->alloc, call) : CUDA_SUCCESS;
}

FS_EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t n, CUgraphNodeParams *params)
{
	FS_ENTER(cuGraphAddNode, (node, graph, after, n, params));
	CUresult r = check_any(params, "cuGraphAddNode");
	return r == CUDA_SUCCESS ? real(node, graph, after, n, params) : r;
}

FS_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t n, CUgraphNodeParams *params)
{
	FS_ENTER(cuGraphAddNode_v2, (node, graph, after, edges, n, params));
	CUresult r = check_any(params, "cuGraphAddNode_v2");
	return r == CUDA_SUCCESS ? real(node, graph, after, edges, n, params) : r;
}

FS_EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t n, CUgraphNodeParams *params)
{
	FS_ENTER(cuGraphAddNode_v3, (node, graph, after, edges, n, params));
	CUresult r = check_any(params, "cuGraphAddNode_v3");
	return r == CUDA_SUCCESS ? real(node, graph, after, edges, n, params) : r;
}
