// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Arrays and mipmapped arrays. Their size is the driver's secret: layout, tiling
// and padding differ by GPU. The driver tells it only for an array whose memory
// is deferred, so one of the same shape is made first, asked, and destroyed;
// that takes no memory. Where deferral is not supported the size is reckoned
// from the shape. Sparse and deferred arrays get their memory from cuMemCreate.

#include "internal.h"

enum { GUESS_PITCH = 512, GUESS_ALIGN = 64 << 10 };

static uint64_t element_bytes(int format, unsigned int channels)
{
	uint64_t one;
	switch (format) {
	case 0x01: case 0x08: one = 1; break;                       // 8-bit integers
	case 0x02: case 0x09: case 0x10: one = 2; break;            // 16-bit integers, half
	case 0x03: case 0x0a: case 0x20: one = 4; break;            // 32-bit integers, float
	default: one = 4; break;                                    // packed and block formats: an upper bound
	}
	return one * (channels ? channels : 1);
}

static uint64_t guess(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	uint64_t w = d->Width, h = d->Height ? d->Height : 1, deep = d->Depth ? d->Depth : 1, sum = 0;
	bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP); // then each level has all of them
	for (unsigned int i = 0; i < (levels ? levels : 1) && i < 32; i++) {
		uint64_t row = fs_round_up(fs_mul(w, element_bytes(d->Format, d->NumChannels)), GUESS_PITCH);
		sum = fs_add(sum, fs_round_up(fs_mul(fs_mul(row, h), deep), GUESS_ALIGN));
		w = w > 1 ? w / 2 : 1;
		h = h > 1 ? h / 2 : 1;
		deep = deep > 1 && !layers ? deep / 2 : deep;
	}
	return sum;
}

static bool backed_elsewhere(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

typedef CUresult (*create3d_fn)(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
typedef CUresult (*mipmap_fn)(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int);
typedef CUresult (*destroy_fn)(void *);

// required asks the driver, by a deferred array of the same shape.
static uint64_t required(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels, CUdevice ordinal)
{
	CUDA_ARRAY3D_DESCRIPTOR probe = *d;
	CUDA_ARRAY_MEMORY_REQUIREMENTS need = {0};
	void *a = NULL;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;
	probe.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	if (levels == 0 && HAS(cuArrayGetMemoryRequirements) && fs_real[FS_cuArray3DCreate_v2]) {
		if (((create3d_fn)fs_real[FS_cuArray3DCreate_v2])(&a, &probe) != CUDA_SUCCESS)
			return guess(d, levels);
		r = CALL(cuArrayGetMemoryRequirements)(&need, a, ordinal);
		((destroy_fn)fs_real[FS_cuArrayDestroy])(a);
	} else if (levels > 0 && HAS(cuMipmappedArrayGetMemoryRequirements)) {
		if (((mipmap_fn)fs_real[FS_cuMipmappedArrayCreate])(&a, &probe, levels) != CUDA_SUCCESS)
			return guess(d, levels);
		r = CALL(cuMipmappedArrayGetMemoryRequirements)(&need, a, ordinal);
		((destroy_fn)fs_real[FS_cuMipmappedArrayDestroy])(a);
	}
	return r == CUDA_SUCCESS && need.size > 0 ? fs_round_up(need.size, need.alignment) : guess(d, levels);
}

struct array_request {
	struct fs_here here;
	uint64_t bytes;
};

static bool ask(struct array_request *q, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	q->here = fs_here();
	q->bytes = 0;
	if (d == NULL || q->here.ctx == NULL || q->here.dev == FS_DEV_NONE || backed_elsewhere(d))
		return true;
	q->bytes = required(d, levels, q->here.ordinal);
	return fs_take(q->here.dev, q->bytes);
}

static CUresult made(const struct array_request *q, CUresult r, void *array)
{
	if (r != CUDA_SUCCESS) {
		fs_give(q->here.dev, q->bytes);
		return r;
	}
	fs_lock(&fs_state_lock);
	struct fs_entry gone; // a handle given out again, as with addresses in linear.c
	if (fs_remove(FS_ARRAY, (uint64_t)(uintptr_t)array, &gone))
		fs_uncharge(gone.dev, gone.bytes);
	fs_insert(&(struct fs_entry){.kind = FS_ARRAY, .key = (uint64_t)(uintptr_t)array, .bytes = q->bytes,
				     .owner = (uint64_t)(uintptr_t)q->here.ctx, .dev = (int16_t)q->here.dev});
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	FS_ENTER(cuArray3DCreate_v2, (array, d));
	struct array_request q;
	if (!ask(&q, d, 0))
		return fs_refuse(q.here.dev, q.bytes, "cuArray3DCreate_v2");
	CUresult r = real(array, d);
	return made(&q, r, r == CUDA_SUCCESS ? *array : NULL);
}

FS_EXPORT CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
	FS_ENTER(cuArrayCreate_v2, (array, d));
	struct array_request q;
	CUDA_ARRAY3D_DESCRIPTOR wide = {0};
	if (d != NULL)
		wide = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	if (!ask(&q, d ? &wide : NULL, 0))
		return fs_refuse(q.here.dev, q.bytes, "cuArrayCreate_v2");
	CUresult r = real(array, d);
	return made(&q, r, r == CUDA_SUCCESS ? *array : NULL);
}

FS_EXPORT CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	FS_ENTER(cuArrayCreate, (array, d));
	struct array_request q;
	CUDA_ARRAY3D_DESCRIPTOR wide = {0};
	if (d != NULL)
		wide = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
	if (!ask(&q, d ? &wide : NULL, 0))
		return fs_refuse(q.here.dev, q.bytes, "cuArrayCreate");
	CUresult r = real(array, d);
	return made(&q, r, r == CUDA_SUCCESS ? *array : NULL);
}

FS_EXPORT CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	FS_ENTER(cuArray3DCreate, (array, d));
	struct array_request q;
	CUDA_ARRAY3D_DESCRIPTOR wide = {0};
	if (d != NULL)
		wide = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags};
	if (!ask(&q, d ? &wide : NULL, 0))
		return fs_refuse(q.here.dev, q.bytes, "cuArray3DCreate");
	CUresult r = real(array, d);
	return made(&q, r, r == CUDA_SUCCESS ? *array : NULL);
}

FS_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	FS_ENTER(cuMipmappedArrayCreate, (array, d, levels));
	struct array_request q;
	if (!ask(&q, d, levels ? levels : 1))
		return fs_refuse(q.here.dev, q.bytes, "cuMipmappedArrayCreate");
	CUresult r = real(array, d, levels);
	return made(&q, r, r == CUDA_SUCCESS ? *array : NULL);
}

static CUresult destroy(CUresult (*real)(void *), void *array)
{
	struct fs_entry old;
	fs_lock(&fs_state_lock);
	bool known = fs_remove(FS_ARRAY, (uint64_t)(uintptr_t)array, &old);
	fs_unlock(&fs_state_lock);
	CUresult r = real(array);
	if (r == CUDA_SUCCESS)
		fs_pins_dropped((uint64_t)(uintptr_t)array);
	if (!known)
		return r;
	if (r == CUDA_SUCCESS) {
		fs_give(old.dev, old.bytes);
		return r;
	}
	fs_lock(&fs_state_lock);
	fs_insert(&old);
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuArrayDestroy(CUarray array)
{
	FS_ENTER(cuArrayDestroy, (array));
	return destroy(real, array);
}

FS_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	FS_ENTER(cuMipmappedArrayDestroy, (array));
	return destroy(real, array);
}
