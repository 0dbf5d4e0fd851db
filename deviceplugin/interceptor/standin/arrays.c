// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: arrays. The driver's own layout: rows of 512 bytes, 64 KiB steps,
// and a header of one step that no caller can reckon. As in the real driver the
// memory requirements are told only for deferred and sparse arrays.

#include "driver.h"

#define STEP (64ull << 10)

struct tile {
	unsigned char key[40];
	void *of;
	struct tile *next;
};
struct array {
	int dev;
	struct context *ctx;
	uint64_t size;
	bool deferred;
	struct tile *tiles;
	struct array *next;
};
static struct array *arrays;

static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	static const int size[] = {[0x01] = 1, [0x02] = 2, [0x03] = 4, [0x08] = 1, [0x09] = 2, [0x0a] = 4, [0x10] = 2, [0x20] = 4};
	int one = d->Format > 0 && d->Format <= 0x20 ? size[d->Format] : 0;
	uint64_t n = STEP, w = d->Width, h = d->Height ? d->Height : 1, z = d->Depth ? d->Depth : 1;
	bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	if (one == 0 || w == 0)
		return 0;
	for (unsigned int i = 0; i < levels; i++, w = w > 1 ? w / 2 : 1, h = h > 1 ? h / 2 : 1, z = z > 1 && !layers ? z / 2 : z)
		n += round_up(round_up(w * (uint64_t)one * d->NumChannels, 512) * h * z, STEP);
	return n;
}

static CUresult create(void **out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	struct context *c = current();
	uint64_t n = d ? bytes_of(d, levels) : 0;
	if (c == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (out == NULL || n == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (d->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING && machine_setting("STANDIN_NO_DEFERRED", 0))
		return CUDA_ERROR_NOT_SUPPORTED;
	bool deferred = d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
	pthread_mutex_lock(&big);
	bool fits = deferred || machine_take(c->dev, n);
	if (fits) {
		struct array *a = malloc(sizeof *a);
		*a = (struct array){.dev = c->dev, .ctx = c, .size = n, .deferred = deferred, .next = arrays};
		arrays = *out = a;
	}
	pthread_mutex_unlock(&big);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(struct array *a)
{
	struct array **at = &arrays;
	while (*at != NULL && *at != a)
		at = &(*at)->next;
	if (*at == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	*at = a->next;
	if (!a->deferred)
		machine_give(a->dev, a->size);
	for (struct tile *t = a->tiles, *next; t != NULL; t = next) {
		next = t->next;
		physical_unref(t->of);
		free(t);
	}
	free(a);
	return CUDA_SUCCESS;
}

void arrays_of_context(struct context *c)
{
	for (struct array *a = arrays, *next; a != NULL; a = next) {
		next = a->next;
		if (a->ctx == c)
			destroy(a);
	}
}

API CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d) { return create(a, d, 1); }
API CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *d)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	return create(a, &wide, 1);
}
API CUresult cuArrayCreate(CUarray *a, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	return create(a, &wide, 1);
}
API CUresult cuArray3DCreate(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = {d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags};
	return create(a, &wide, 1);
}
API CUresult cuMipmappedArrayCreate(CUmipmappedArray *a, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) { return create(a, d, levels); }

API CUresult cuArrayDestroy(CUarray a)
{
	pthread_mutex_lock(&big);
	CUresult r = destroy(a);
	pthread_mutex_unlock(&big);
	return r;
}
API CUresult cuMipmappedArrayDestroy(CUmipmappedArray a) { return cuArrayDestroy(a); }

API CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array, CUdevice d)
{
	struct array *a = array;
	(void)d;
	if (!a->deferred)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = a->size, .alignment = STEP};
	return CUDA_SUCCESS;
}
API CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray a, CUdevice d) { return cuArrayGetMemoryRequirements(out, a, d); }

API CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	(void)stream;
	pthread_mutex_lock(&big);
	for (unsigned int i = 0; i < count; i++) {
		struct array *a = list[i].resource;
		unsigned char key[40] = {0};
		memcpy(key, &list[i].subresource, sizeof list[i].subresource);
		for (struct tile **at = &a->tiles; *at != NULL; at = &(*at)->next)
			if (memcmp((*at)->key, key, sizeof key) == 0) {
				struct tile *t = *at;
				*at = t->next;
				physical_unref(t->of);
				free(t);
				break;
			}
		if (list[i].memOperationType != CU_MEM_OPERATION_TYPE_MAP)
			continue;
		struct tile *t = malloc(sizeof *t);
		memcpy(t->key, key, sizeof key);
		t->of = physical_ref(list[i].memHandle);
		t->next = a->tiles;
		a->tiles = t;
	}
	pthread_mutex_unlock(&big);
	return CUDA_SUCCESS;
}
API CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned int count, CUstream s) { return cuMemMapArrayAsync(list, count, s); }
