// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Linear memory. The driver backs it by physical pages (2 MiB) and lets small
// requests share one, so what is charged is pages: those that an allocation has
// to itself, and each shared page once, from its first allocation to its last.

#include "internal.h"

#include <string.h>

bool fs_take(int dev, uint64_t bytes)
{
	if (likely(fs_charge(dev, bytes)))
		return true;
	if (dev < 0 || bytes > fs_limit_of(dev))
		return false;
	// The driver would empty idle pools before it gives up; so do we.
	fs_pools_reclaim(dev);
	fs_graphs_reclaim(dev);
	return fs_charge(dev, bytes);
}

void fs_give(int dev, uint64_t bytes) { fs_uncharge(dev, bytes); }

struct span {
	uint64_t first, last; // pages touched
	uint64_t own;         // bytes of pages wholly covered
	bool shares_first, shares_last;
};

static struct span span_of(uint64_t ptr, uint64_t size, uint64_t page)
{
	struct span s = {.first = ptr / page, .last = (ptr + size - 1) / page};
	s.shares_first = ptr % page != 0 || (s.first == s.last && size < page);
	s.shares_last = s.last != s.first && (ptr + size) % page != 0;
	s.own = (s.last - s.first + 1 - s.shares_first - s.shares_last) * page;
	return s;
}

// page_joined and page_left return the bytes to charge or to give back. A page
// remembers how far it was ever filled: what lies behind is surely free. Only
// plain blocks of up to half a page share on purpose; others leave no room.
static uint64_t page_joined(uint64_t number, uint64_t filled, int dev, uint64_t page)
{
	struct fs_entry *e = fs_find(FS_PAGE, number);
	if (e != NULL) {
		e->bytes++;
		e->size = filled > e->size ? filled : e->size;
		return 0;
	}
	fs_insert(&(struct fs_entry){.kind = FS_PAGE, .key = number, .bytes = 1, .size = filled, .dev = (int16_t)dev});
	return page;
}

static uint64_t page_left(uint64_t number, uint64_t page)
{
	struct fs_entry *e = fs_find(FS_PAGE, number);
	if (e == NULL || --e->bytes > 0)
		return 0;
	fs_remove(FS_PAGE, number, NULL);
	return page;
}

static uint64_t pages_taken(uint64_t ptr, uint64_t size, bool small, int dev, uint64_t page)
{
	struct span s = span_of(ptr, size, page);
	uint64_t n = s.own;
	if (s.shares_first)
		n += page_joined(s.first, small && s.first == s.last ? ptr % page + size : page, dev, page);
	if (s.shares_last)
		n += page_joined(s.last, small ? (ptr + size) % page : page, dev, page);
	return n;
}

static uint64_t pages_given(const struct fs_entry *e)
{
	uint64_t page = fs_granularity(e->dev);
	struct span s = span_of(e->key, e->size, page);
	uint64_t n = s.own;
	if (s.shares_first)
		n += page_left(s.first, page);
	if (s.shares_last)
		n += page_left(s.last, page);
	return n;
}

struct room {
	int dev;
	uint64_t filled; // at most, for the request to find room
};

static bool has_room(const struct fs_entry *e, const void *arg)
{
	const struct room *r = arg;
	return e->kind == FS_PAGE && e->dev == r->dev && fs_round_up(e->size, 512) <= r->filled;
}

// Small blocks of a process come and go one after the other: else two could count
// on the same room, or one on a page that another is just giving up.
struct fs_lock fs_small_lock;

struct request {
	struct fs_here here;
	uint64_t reserved;
	bool small;
};

// reserve asks for whole pages. A small plain request that finds no fresh page left
// goes on with nothing if a page already charged has room for it; should the
// driver take a fresh page all the same, it is handed back.
static bool reserve(struct request *q, uint64_t size, bool plain)
{
	q->here = fs_here();
	q->reserved = 0;
	q->small = false;
	if (q->here.ctx == NULL || q->here.dev == FS_DEV_NONE || size == 0)
		return true; // the driver will refuse by itself
	int dev = q->here.dev;
	uint64_t page = fs_granularity(dev), need = fs_round_up(size, page);
	q->small = plain && size <= page / 2;
	if (q->small)
		fs_lock(&fs_small_lock);
	if (fs_take(dev, need)) {
		q->reserved = need;
		return true;
	}
	bool room = false;
	if (dev >= 0 && q->small) {
		struct room r = {dev, page - fs_round_up(size, 512)};
		fs_lock(&fs_state_lock);
		room = fs_exists(has_room, &r);
		fs_unlock(&fs_state_lock);
	}
	if (!room && q->small)
		fs_unlock(&fs_small_lock);
	return room;
}

// commit replaces the reservation by the pages really taken; false means that
// they do not fit and the memory must be freed again.
static bool commit(struct request *q, uint64_t ptr, uint64_t size)
{
	int dev = q->here.dev;
	if (dev < 0 || size == 0)
		return true;
	struct fs_entry e = {.kind = FS_LINEAR, .key = ptr, .size = size, .owner = (uint64_t)q->here.ctx, .dev = (int16_t)dev};
	fs_lock(&fs_state_lock);
	// An address given out again is free: its context ends, and that is noted later.
	struct fs_entry gone;
	if (fs_remove(FS_LINEAR, ptr, &gone))
		fs_uncharge(gone.dev, pages_given(&gone));
	uint64_t taken = pages_taken(ptr, size, q->small, dev, fs_granularity(dev));
	bool fits = taken <= q->reserved || fs_charge(dev, taken - q->reserved);
	if (fits)
		fits = fs_insert(&e) != NULL;
	if (!fits) {
		pages_given(&e);
		taken = 0;
	}
	fs_unlock(&fs_state_lock);
	if (taken < q->reserved)
		fs_uncharge(dev, q->reserved - taken);
	return fits;
}

static CUresult settle(struct request *q, CUresult r, uint64_t ptr, uint64_t size, const char *call)
{
	bool fits = true;
	if (r != CUDA_SUCCESS)
		fs_give(q->here.dev, q->reserved);
	else if (!(fits = commit(q, ptr, size)))
		((CUresult(*)(CUdeviceptr))fs_real[FS_cuMemFree_v2])(ptr);
	if (q->small)
		fs_unlock(&fs_small_lock);
	return fits ? r : fs_refuse(q->here.dev, size, call);
}

FS_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t size)
{
	FS_ENTER(cuMemAlloc_v2, (dptr, size));
	struct request q;
	if (!reserve(&q, size, true))
		return fs_refuse(q.here.dev, size, "cuMemAlloc_v2");
	CUresult r = real(dptr, size);
	return settle(&q, r, dptr ? *dptr : 0, size, "cuMemAlloc_v2");
}

FS_EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int size)
{
	FS_ENTER(cuMemAlloc, (dptr, size));
	struct request q;
	if (!reserve(&q, size, false))
		return fs_refuse(q.here.dev, size, "cuMemAlloc");
	CUresult r = real(dptr, size);
	return settle(&q, r, dptr ? *dptr : 0, size, "cuMemAlloc");
}

// The driver picks the pitch: the row is reserved at the widest alignment seen
// in practice, and what counts in the end is pitch times height.
FS_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	FS_ENTER(cuMemAllocPitch_v2, (dptr, pitch, width, height, element));
	struct request q;
	uint64_t size = fs_mul(fs_round_up(width, 512), height);
	if (!reserve(&q, size, false))
		return fs_refuse(q.here.dev, size, "cuMemAllocPitch_v2");
	CUresult r = real(dptr, pitch, width, height, element);
	bool got = r == CUDA_SUCCESS && dptr && pitch;
	return settle(&q, r, got ? *dptr : 0, got ? fs_mul(*pitch, height) : 0, "cuMemAllocPitch_v2");
}

FS_EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element)
{
	FS_ENTER(cuMemAllocPitch, (dptr, pitch, width, height, element));
	struct request q;
	uint64_t size = fs_mul(fs_round_up(width, 512), height);
	if (!reserve(&q, size, false))
		return fs_refuse(q.here.dev, size, "cuMemAllocPitch");
	CUresult r = real(dptr, pitch, width, height, element);
	bool got = r == CUDA_SUCCESS && dptr && pitch;
	return settle(&q, r, got ? *dptr : 0, got ? fs_mul(*pitch, height) : 0, "cuMemAllocPitch");
}

// Managed memory may live on the host; charged in full it leaves no way around
// the limit, and the agent's policy can exempt it.
FS_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t size, unsigned int flags)
{
	FS_ENTER(cuMemAllocManaged, (dptr, size, flags));
	if (fs_region_flags() & FS_FLAG_MANAGED_FREE)
		return real(dptr, size, flags);
	struct request q;
	if (!reserve(&q, size, false))
		return fs_refuse(q.here.dev, size, "cuMemAllocManaged");
	CUresult r = real(dptr, size, flags);
	return settle(&q, r, dptr ? *dptr : 0, size, "cuMemAllocManaged");
}

static bool is_small(const struct fs_entry *e) { return e->size <= fs_granularity(e->dev) / 2; }

// The entry goes before the driver frees, since another thread may be given the
// same address at once; the charge goes after, since only then memory is free.
bool fs_linear_free_begin(CUdeviceptr ptr, struct fs_entry *old)
{
	fs_lock(&fs_state_lock);
	bool known = fs_remove(FS_LINEAR, ptr, old);
	fs_unlock(&fs_state_lock);
	if (known && is_small(old))
		fs_lock(&fs_small_lock);
	return known;
}

void fs_linear_free_end(const struct fs_entry *old, bool freed)
{
	uint64_t given = 0;
	fs_lock(&fs_state_lock);
	if (freed)
		given = pages_given(old);
	else
		fs_insert(old);
	fs_unlock(&fs_state_lock);
	if (is_small(old))
		fs_unlock(&fs_small_lock);
	fs_give(old->dev, given);
}

static CUresult release(CUdeviceptr ptr, CUresult (*real)(CUdeviceptr), CUresult (*real32)(CUdeviceptr_v1))
{
	struct fs_entry old;
	bool known = fs_linear_free_begin(ptr, &old);
	bool from_pool = !known && fs_pool_free_begin(ptr, &old);
	CUresult r = real ? real(ptr) : real32((CUdeviceptr_v1)ptr);
	if (known)
		fs_linear_free_end(&old, r == CUDA_SUCCESS);
	else if (from_pool)
		fs_pool_free_end(&old, r == CUDA_SUCCESS);
	else if (atomic_load(&fs_graphs_active))
		fs_graphs_settle(fs_here().dev); // memory of a graph's allocation node
	return r;
}

FS_EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	FS_ENTER(cuMemFree_v2, (ptr));
	return release(ptr, real, NULL);
}

FS_EXPORT CUresult cuMemFree(CUdeviceptr_v1 ptr)
{
	FS_ENTER(cuMemFree, (ptr));
	return release(ptr, NULL, real);
}

static bool of_context(const struct fs_entry *e, const void *ctx)
{
	return e->owner == (uint64_t)(uintptr_t)ctx && (e->kind == FS_LINEAR || e->kind == FS_ARRAY || e->kind == FS_CTXLIMIT);
}

// fs_context_gone gives back what the driver freed together with a context.
void fs_context_gone(CUcontext ctx, bool with_overhead)
{
	struct fs_entry old;
	fs_throttle_context_gone(ctx);
	for (;;) {
		fs_lock(&fs_state_lock);
		bool found = fs_remove_any(of_context, ctx, &old);
		uint64_t given = !found ? 0 : old.kind == FS_LINEAR ? pages_given(&old) : old.bytes;
		fs_unlock(&fs_state_lock);
		if (!found)
			break;
		fs_give(old.dev, given);
		if (old.kind == FS_ARRAY)
			fs_pins_dropped(old.key);
	}
	fs_lock(&fs_state_lock);
	bool known = with_overhead && fs_remove(FS_CONTEXT, (uint64_t)(uintptr_t)ctx, &old);
	fs_unlock(&fs_state_lock);
	if (known)
		fs_give(old.dev, old.bytes);
}
