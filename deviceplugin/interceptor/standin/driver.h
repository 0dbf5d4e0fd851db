// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: what the files of the stand-in libcuda.so.1 share.

#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"
#include "machine.h"

#define API __attribute__((visibility("default")))

extern pthread_mutex_t big; // one lock for the process's own objects

struct context {
	int dev;
	bool primary, active;
	size_t limit[8];
	int refs;
	uint64_t life; // raised each time that it is made anew
};
struct context *current(void); // NULL: none

enum kind { LINEAR = 1, SMALL, MANAGED, POOLED, GRAPH_PTR, MAPPED, FOREIGN };
struct block {
	CUdeviceptr ptr;
	uint64_t size;
	enum kind kind;
	int dev;
	struct context *ctx;
	void *of; // chunk, pool or physical object
	struct block *next;
};
struct block *block_add(CUdeviceptr ptr, uint64_t size, enum kind kind, int dev, void *of);
struct block *block_find(CUdeviceptr ptr);
void block_remove(CUdeviceptr ptr);
void blocks_of_context(struct context *c, void (*each)(struct block *));
CUdeviceptr new_addresses(int dev, uint64_t size);

struct stream {
	int dev;
	struct context *ctx;
	uint64_t busy_until;
	struct graph *capture;
};
extern CUresult fault; // of a kernel: what the driver answers from then on
struct stream *stream_of(CUstream s); // resolves the default streams
CUresult block_free(CUdeviceptr ptr);
void context_freed(struct context *c);
void pools_synchronised(void);
void pool_block_freed(struct block *b);
CUresult graph_alloc_node(struct graph *g, uint64_t size, int dev, CUdeviceptr *out);
CUresult graph_free_node(struct graph *g, CUdeviceptr ptr);
void graph_kernel_node(struct graph *g, uint64_t ns);
void graph_block_freed(struct block *b);
void arrays_of_context(struct context *c);
void *physical_ref(CUmemGenericAllocationHandle h);
void physical_unref(void *object);
void *physical_at(CUdeviceptr ptr);

#endif
