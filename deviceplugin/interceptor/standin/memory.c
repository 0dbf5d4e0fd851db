// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: linear memory. Requests up to 1 MiB share pages of 2 MiB; a page
// is taken with its first block and given back with its last.

#include "driver.h"

#define BUCKETS (1 << 14)
#define CELL 512
#define SMALL_LIMIT (1ull << 20)

static struct block *blocks[BUCKETS];
static struct block *spare; // records to reuse, so that malloc is not what is measured
static uint64_t next_address[MAX_GPUS];
static uint32_t next_low = 0x10000000;

struct chunk {
	CUdeviceptr base;
	uint64_t filled;
	int live, dev;
	struct chunk *next;
};
static struct chunk *chunks;

static size_t bucket(CUdeviceptr p) { return (size_t)((p >> 9) * 0x9e3779b97f4a7c15ull >> 50); }

struct block *block_add(CUdeviceptr ptr, uint64_t size, enum kind kind, int dev, void *of)
{
	struct block *b = spare;
	if (b != NULL)
		spare = b->next;
	else
		b = malloc(sizeof *b);
	*b = (struct block){ptr, size, kind, dev, current(), of, blocks[bucket(ptr)]};
	return blocks[bucket(ptr)] = b;
}

struct block *block_find(CUdeviceptr ptr)
{
	struct block *b = blocks[bucket(ptr)];
	while (b != NULL && b->ptr != ptr)
		b = b->next;
	return b;
}

void block_remove(CUdeviceptr ptr)
{
	struct block **at = &blocks[bucket(ptr)];
	while (*at != NULL && (*at)->ptr != ptr)
		at = &(*at)->next;
	struct block *b = *at;
	if (b == NULL)
		return;
	*at = b->next;
	b->next = spare;
	spare = b;
}

// Addresses are used again, the last freed first, as a driver does.
static struct {
	CUdeviceptr ptr;
	uint64_t size;
	int dev;
} reusable[64];
static int reusable_count;

static void addresses_freed(const struct block *b)
{
	if (reusable_count == 64)
		reusable_count = 0;
	reusable[reusable_count].ptr = b->ptr;
	reusable[reusable_count].size = round_up(b->size, PAGE);
	reusable[reusable_count++].dev = b->dev;
}

CUdeviceptr new_addresses(int dev, uint64_t size)
{
	if (reusable_count > 0 && reusable[reusable_count - 1].size == round_up(size, PAGE) && reusable[reusable_count - 1].dev == dev)
		return reusable[--reusable_count].ptr;
	CUdeviceptr p = ((uint64_t)(machine_index(dev) + 1) << 48) + next_address[dev];
	next_address[dev] += round_up(size, PAGE);
	return p;
}

static CUresult small_block(int dev, uint64_t size, CUdeviceptr *out)
{
	uint64_t n = round_up(size, CELL);
	struct chunk *c = chunks;
	while (c != NULL && (c->dev != dev || c->filled + n > PAGE || c->live == 0))
		c = c->next;
	if (c == NULL) {
		if (!machine_take(dev, PAGE))
			return CUDA_ERROR_OUT_OF_MEMORY;
		for (c = chunks; c != NULL && (c->live > 0 || c->dev != dev);)
			c = c->next; // an empty one keeps its addresses
		if (c == NULL) {
			c = calloc(1, sizeof *c);
			*c = (struct chunk){.base = new_addresses(dev, PAGE), .dev = dev, .next = chunks};
			chunks = c;
		}
		c->filled = 0;
	}
	*out = c->base + c->filled;
	c->filled += n;
	c->live++;
	block_add(*out, size, SMALL, dev, c);
	return CUDA_SUCCESS;
}

static CUresult take(CUdeviceptr *out, uint64_t size, enum kind kind)
{
	struct context *c = current();
	if (c == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (out == NULL || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&big);
	if (size <= SMALL_LIMIT && kind == LINEAR) {
		r = small_block(c->dev, size, out);
	} else if (machine_take(c->dev, round_up(size, PAGE))) {
		*out = new_addresses(c->dev, size);
		block_add(*out, size, kind, c->dev, NULL);
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&big);
	return r;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t size) { return take(ptr, size, LINEAR); }
API CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t size, unsigned int flags)
{
	(void)flags;
	return take(ptr, size, MANAGED);
}

API CUresult cuMemAlloc(CUdeviceptr_v1 *ptr, unsigned int size)
{
	struct context *c = current();
	if (c == NULL || ptr == NULL || size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&big);
	bool fits = machine_take(c->dev, round_up(size, PAGE));
	if (fits) {
		*ptr = next_low;
		next_low += (uint32_t)round_up(size, PAGE);
		block_add(*ptr, size, LINEAR, c->dev, NULL);
	}
	pthread_mutex_unlock(&big);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	(void)element;
	if (pitch == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = round_up(width, 512);
	return take(ptr, *pitch * height, LINEAR);
}

API CUresult cuMemAllocPitch(CUdeviceptr_v1 *ptr, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element)
{
	(void)element;
	*pitch = (unsigned int)round_up(width, 512);
	return cuMemAlloc(ptr, *pitch * height);
}

static void give_back(struct block *b)
{
	struct chunk *c = b->of;
	switch (b->kind) {
	case LINEAR: case MANAGED:
		machine_give(b->dev, round_up(b->size, PAGE));
		break;
	case SMALL:
		if (--c->live == 0)
			machine_give(b->dev, PAGE);
		break;
	case POOLED: pool_block_freed(b); break;
	case GRAPH_PTR: graph_block_freed(b); break;
	case MAPPED: case FOREIGN: break;
	}
}

CUresult block_free(CUdeviceptr ptr)
{
	struct block *b = block_find(ptr);
	if (ptr == 0)
		return CUDA_SUCCESS;
	if (b == NULL || b->kind == MAPPED || b->kind == FOREIGN)
		return CUDA_ERROR_INVALID_VALUE;
	give_back(b);
	if ((b->kind == LINEAR || b->kind == MANAGED) && ptr >> 48 != 0)
		addresses_freed(b);
	block_remove(ptr);
	return CUDA_SUCCESS;
}

API CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	pthread_mutex_lock(&big);
	CUresult r = block_free(ptr);
	pthread_mutex_unlock(&big);
	return r;
}
API CUresult cuMemFree(CUdeviceptr_v1 ptr) { return cuMemFree_v2(ptr); }

void context_freed(struct context *c)
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct block *b = blocks[i], *next; b != NULL; b = next) {
			next = b->next;
			if (b->ctx == c && (b->kind == LINEAR || b->kind == SMALL || b->kind == MANAGED)) {
				give_back(b);
				if (b->kind != SMALL && b->ptr >> 48 != 0)
					addresses_freed(b);
				block_remove(b->ptr);
			}
		}
	arrays_of_context(c);
}

// ---- host memory takes nothing of the device

API CUresult cuMemHostAlloc(void **p, size_t size, unsigned int flags)
{
	(void)flags;
	*p = malloc(size);
	return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuMemAllocHost_v2(void **p, size_t size) { return cuMemHostAlloc(p, size, 0); }
API CUresult cuMemFreeHost(void *p)
{
	free(p);
	return CUDA_SUCCESS;
}

// ---- IPC: the opener gets addresses, not memory

struct ipc {
	CUdeviceptr ptr;
	uint64_t size;
	int dev;
};

API CUresult cuIpcGetMemHandle(CUipcMemHandle *h, CUdeviceptr ptr)
{
	pthread_mutex_lock(&big);
	struct block *b = block_find(ptr);
	if (b != NULL) {
		struct ipc i;
		memset(&i, 0, sizeof i);
		i.ptr = ptr, i.size = b->size, i.dev = b->dev;
		memset(h, 0, sizeof *h);
		memcpy(h, &i, sizeof i);
	}
	pthread_mutex_unlock(&big);
	return b ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle h, unsigned int flags)
{
	struct ipc i;
	(void)flags;
	memcpy(&i, &h, sizeof i);
	pthread_mutex_lock(&big);
	*ptr = new_addresses(i.dev, i.size);
	block_add(*ptr, i.size, FOREIGN, i.dev, NULL);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}

API CUresult cuIpcCloseMemHandle(CUdeviceptr ptr)
{
	pthread_mutex_lock(&big);
	block_remove(ptr);
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
