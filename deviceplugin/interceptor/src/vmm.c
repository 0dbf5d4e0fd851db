// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Virtual memory management. cuMemCreate takes physical memory on the device
// that its properties name, whatever the current context. It is given back when
// the last handle is released AND the last mapping, array tile or multicast
// binding is gone. Imported memory belongs to the exporter, which is charged.

#include "internal.h"

#include <string.h>

static _Atomic uint64_t next_object = 1;

// The entry of an object: bytes = what is charged, size = handles that refer to
// it, aux = mappings and pins that do.
static uint64_t object_new(int dev, uint64_t bytes)
{
	uint64_t id = atomic_fetch_add(&next_object, 1);
	fs_insert(&(struct fs_entry){.kind = FS_OBJECT, .key = id, .bytes = bytes, .size = 1, .dev = (int16_t)dev});
	return id;
}

static void drop_pins(uint64_t owner);

// object_end gives an object's memory back when nothing refers to it any more;
// under fs_state_lock.
static void object_end(uint64_t id)
{
	struct fs_entry *o = fs_find(FS_OBJECT, id);
	if (o == NULL || o->size > 0 || o->aux > 0)
		return;
	fs_uncharge(o->dev, o->bytes);
	fs_remove(FS_OBJECT, id, NULL);
	drop_pins(id); // it may have been a multicast object with bindings
}

static void handle_new(CUmemGenericAllocationHandle h, uint64_t id)
{
	struct fs_entry *e = fs_find(FS_HANDLE, h);
	if (e != NULL && e->aux == id)
		e->bytes++;
	else
		fs_insert(&(struct fs_entry){.kind = FS_HANDLE, .key = h, .aux = id, .bytes = 1});
}

static void object_ref(uint64_t id, bool handle)
{
	struct fs_entry *o = fs_find(FS_OBJECT, id);
	if (o != NULL)
		*(handle ? &o->size : &o->aux) += 1;
}

static void object_unmap(uint64_t id)
{
	struct fs_entry *o = fs_find(FS_OBJECT, id);
	if (o == NULL || o->aux == 0)
		return;
	o->aux--;
	object_end(id);
}

FS_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
	FS_ENTER(cuMemCreate, (handle, size, prop, flags));
	int dev = prop ? fs_device_of_location(&prop->location) : FS_DEV_NONE;
	if (dev == FS_DEV_NONE)
		return real(handle, size, prop, flags); // host memory, or an error that is the driver's to name
	uint64_t bytes = fs_round_up(size, fs_granularity(dev));
	if (!fs_take(dev, bytes))
		return fs_refuse(dev, size, "cuMemCreate");
	CUresult r = real(handle, size, prop, flags);
	if (r != CUDA_SUCCESS) {
		fs_give(dev, bytes);
		return r;
	}
	fs_lock(&fs_state_lock);
	handle_new(*handle, object_new(dev, bytes));
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	FS_ENTER(cuMemRelease, (handle));
	// Taken out first: the driver may hand the number out again at once.
	fs_lock(&fs_state_lock);
	struct fs_entry *h = fs_find(FS_HANDLE, handle);
	uint64_t id = h ? h->aux : 0;
	if (h != NULL && --h->bytes == 0)
		fs_remove(FS_HANDLE, handle, NULL);
	fs_unlock(&fs_state_lock);
	CUresult r = real(handle);
	if (id == 0)
		return r;
	fs_lock(&fs_state_lock);
	struct fs_entry *o = fs_find(FS_OBJECT, id);
	if (r != CUDA_SUCCESS)
		handle_new(handle, id);
	else if (o != NULL && o->size > 0) {
		o->size--;
		object_end(id);
	}
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	FS_ENTER(cuMemMap, (ptr, size, offset, handle, flags));
	CUresult r = real(ptr, size, offset, handle, flags);
	if (r != CUDA_SUCCESS)
		return r;
	fs_lock(&fs_state_lock);
	struct fs_entry *h = fs_find(FS_HANDLE, handle);
	if (h != NULL) {
		uint64_t id = h->aux;
		object_ref(id, false);
		fs_insert(&(struct fs_entry){.kind = FS_MAPPING, .key = ptr, .size = size, .aux = id});
	}
	fs_unlock(&fs_state_lock);
	return r;
}

// mapping_at finds the mapping that covers an address by walking back over
// pages; mappings begin on page boundaries.
static struct fs_entry *mapping_at(uint64_t ptr)
{
	uint64_t page = fs_granularity(FS_DEV_NONE);
	uint64_t at = ptr - ptr % page;
	for (int i = 0; i < 1 << 17; i++, at -= page) {
		struct fs_entry *m = fs_find(FS_MAPPING, at);
		if (m != NULL)
			return ptr - at < m->size ? m : NULL;
		if (at < page)
			break;
	}
	return NULL;
}

FS_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	FS_ENTER(cuMemUnmap, (ptr, size));
	CUresult r = real(ptr, size);
	if (r != CUDA_SUCCESS)
		return r;
	uint64_t page = fs_granularity(FS_DEV_NONE);
	fs_lock(&fs_state_lock);
	for (uint64_t at = ptr; at < ptr + size;) {
		struct fs_entry old;
		if (!fs_remove(FS_MAPPING, at, &old)) {
			at += page;
			continue;
		}
		object_unmap(old.aux);
		at += old.size ? old.size : page;
	}
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	FS_ENTER(cuMemRetainAllocationHandle, (handle, addr));
	CUresult r = real(handle, addr);
	if (r != CUDA_SUCCESS)
		return r;
	fs_lock(&fs_state_lock);
	struct fs_entry *m = mapping_at((uint64_t)(uintptr_t)addr);
	if (m != NULL) {
		uint64_t id = m->aux;
		object_ref(id, true);
		handle_new(*handle, id);
	}
	fs_unlock(&fs_state_lock);
	return r;
}

// export_key names what an import in this same process would present: the file
// descriptor, or the bytes of a fabric handle.
static uint64_t export_key(const void *shared, int type, bool by_value)
{
	if (type == CU_MEM_HANDLE_TYPE_POSIX_FD)
		return 1ull << 62 | (uint32_t)(by_value ? (int)(intptr_t)shared : *(const int *)shared);
	uint64_t h = 1469598103934665603ull;
	for (int i = 0; i < 64; i++)
		h = (h ^ ((const uint8_t *)shared)[i]) * 1099511628211ull;
	return h | 1ull << 63;
}

static bool can_key(int type) { return type == CU_MEM_HANDLE_TYPE_POSIX_FD || type == CU_MEM_HANDLE_TYPE_FABRIC; }

FS_EXPORT CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)
{
	FS_ENTER(cuMemExportToShareableHandle, (shared, handle, type, flags));
	CUresult r = real(shared, handle, type, flags);
	if (r != CUDA_SUCCESS || !can_key(type))
		return r;
	fs_lock(&fs_state_lock);
	struct fs_entry *h = fs_find(FS_HANDLE, handle);
	if (h != NULL)
		fs_insert(&(struct fs_entry){.kind = FS_EXPORTED, .key = export_key(shared, type, false), .aux = h->aux});
	fs_unlock(&fs_state_lock);
	return r;
}

// An import of what this process exported itself is one more handle of the same
// object: else create, export, import, release would shed the charge.
FS_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared, int type)
{
	FS_ENTER(cuMemImportFromShareableHandle, (handle, shared, type));
	CUresult r = real(handle, shared, type);
	if (r != CUDA_SUCCESS)
		return r;
	fs_lock(&fs_state_lock);
	struct fs_entry *x = can_key(type) ? fs_find(FS_EXPORTED, export_key(shared, type, true)) : NULL;
	uint64_t id = x ? x->aux : 0;
	if (id != 0 && fs_find(FS_OBJECT, id) != NULL)
		object_ref(id, true);
	else
		id = object_new(FS_DEV_NONE, 0);
	handle_new(*handle, id);
	fs_unlock(&fs_state_lock);
	return r;
}

// ---- Pins: array tiles and multicast bindings that keep physical memory alive.

static uint64_t pin_key(uint64_t owner, const void *place, size_t n)
{
	uint64_t h = 1469598103934665603ull ^ owner * 0x9e3779b97f4a7c15ull;
	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)place)[i]) * 1099511628211ull;
	return h;
}

static _Atomic uint32_t pins; // most programs have none, and are spared the scan

static void unpin(uint64_t key)
{
	struct fs_entry old;
	if (!fs_remove(FS_PIN, key, &old))
		return;
	atomic_fetch_sub(&pins, 1);
	object_unmap(old.aux);
}

static void pin(uint64_t key, uint64_t owner, uint64_t id)
{
	unpin(key); // a tile that is mapped again drops what it held
	object_ref(id, false);
	atomic_fetch_add(&pins, 1);
	fs_insert(&(struct fs_entry){.kind = FS_PIN, .key = key, .owner = owner, .aux = id});
}

static bool pinned_by(const struct fs_entry *e, const void *owner)
{
	return e->kind == FS_PIN && e->owner == *(const uint64_t *)owner;
}

// drop_pins ends what an array or a multicast object held when it ends; under
// fs_state_lock.
static void drop_pins(uint64_t owner)
{
	struct fs_entry old;
	while (atomic_load(&pins) > 0 && fs_remove_any(pinned_by, &owner, &old)) {
		atomic_fetch_sub(&pins, 1);
		object_unmap(old.aux);
	}
}

void fs_pins_dropped(uint64_t owner)
{
	fs_lock(&fs_state_lock);
	drop_pins(owner);
	fs_unlock(&fs_state_lock);
}

static void map_tile(const CUarrayMapInfo *m)
{
	uint64_t owner = (uint64_t)(uintptr_t)m->resource;
	uint64_t key = pin_key(owner, &m->subresourceType, sizeof m->subresourceType) ^ pin_key(owner, &m->subresource, m->subresourceType ? sizeof m->subresource.miptail : sizeof m->subresource.sparseLevel);
	struct fs_entry *h = m->memOperationType == CU_MEM_OPERATION_TYPE_MAP ? fs_find(FS_HANDLE, m->memHandle) : NULL;
	if (h != NULL)
		pin(key, owner, h->aux);
	else
		unpin(key);
}

static CUresult map_array(CUresult r, const CUarrayMapInfo *list, unsigned int count)
{
	if (r != CUDA_SUCCESS)
		return r;
	fs_lock(&fs_state_lock);
	for (unsigned int i = 0; i < count; i++)
		map_tile(&list[i]);
	fs_unlock(&fs_state_lock);
	return r;
}

FS_EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	FS_ENTER(cuMemMapArrayAsync, (list, count, stream));
	return map_array(real(list, count, stream), list, count);
}

FS_EXPORT CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	FS_ENTER(cuMemMapArrayAsync_ptsz, (list, count, stream));
	return map_array(real(list, count, stream), list, count);
}

FS_EXPORT CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mc, const CUmulticastObjectProp *prop)
{
	FS_ENTER(cuMulticastCreate, (mc, prop));
	CUresult r = real(mc, prop);
	if (r == CUDA_SUCCESS) {
		fs_lock(&fs_state_lock);
		handle_new(*mc, object_new(FS_DEV_NONE, 0));
		fs_unlock(&fs_state_lock);
	}
	return r;
}

// binding_key tells the devices of one multicast object apart: each binds its
// own memory at the same offset.
static uint64_t binding_key(uint64_t owner, int dev, size_t offset)
{
	uint64_t place[2] = {(uint64_t)dev, offset};
	return pin_key(owner, place, sizeof place);
}

static CUresult bound(CUresult r, CUmemGenericAllocationHandle mc, size_t offset, uint64_t id_of_memory)
{
	fs_lock(&fs_state_lock);
	struct fs_entry *m = fs_find(FS_HANDLE, mc);
	struct fs_entry *o = fs_find(FS_OBJECT, id_of_memory);
	if (r == CUDA_SUCCESS && m != NULL && o != NULL) {
		uint64_t owner = m->aux; // inserting may move the entries
		pin(binding_key(owner, o->dev, offset), owner, id_of_memory);
	}
	fs_unlock(&fs_state_lock);
	return r;
}

static uint64_t id_of_handle(CUmemGenericAllocationHandle handle)
{
	fs_lock(&fs_state_lock);
	struct fs_entry *h = fs_find(FS_HANDLE, handle);
	uint64_t id = h ? h->aux : 0;
	fs_unlock(&fs_state_lock);
	return id;
}

static uint64_t id_of_address(CUdeviceptr ptr)
{
	fs_lock(&fs_state_lock);
	struct fs_entry *m = mapping_at(ptr);
	uint64_t id = m ? m->aux : 0;
	fs_unlock(&fs_state_lock);
	return id;
}

FS_EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mc, size_t offset, CUmemGenericAllocationHandle mem, size_t mem_offset, size_t size, unsigned long long flags)
{
	FS_ENTER(cuMulticastBindMem, (mc, offset, mem, mem_offset, size, flags));
	return bound(real(mc, offset, mem, mem_offset, size, flags), mc, offset, id_of_handle(mem));
}

FS_EXPORT CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mc, CUdevice dev, size_t offset, CUmemGenericAllocationHandle mem, size_t mem_offset, size_t size, unsigned long long flags)
{
	FS_ENTER(cuMulticastBindMem_v2, (mc, dev, offset, mem, mem_offset, size, flags));
	return bound(real(mc, dev, offset, mem, mem_offset, size, flags), mc, offset, id_of_handle(mem));
}

FS_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mc, size_t offset, CUdeviceptr ptr, size_t size, unsigned long long flags)
{
	FS_ENTER(cuMulticastBindAddr, (mc, offset, ptr, size, flags));
	return bound(real(mc, offset, ptr, size, flags), mc, offset, id_of_address(ptr));
}

FS_EXPORT CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mc, CUdevice dev, size_t offset, CUdeviceptr ptr, size_t size, unsigned long long flags)
{
	FS_ENTER(cuMulticastBindAddr_v2, (mc, dev, offset, ptr, size, flags));
	return bound(real(mc, dev, offset, ptr, size, flags), mc, offset, id_of_address(ptr));
}

FS_EXPORT CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mc, CUdevice dev, size_t offset, size_t size)
{
	FS_ENTER(cuMulticastUnbind, (mc, dev, offset, size));
	CUresult r = real(mc, dev, offset, size);
	if (r != CUDA_SUCCESS)
		return r;
	int index = fs_device_of(dev);
	fs_lock(&fs_state_lock);
	struct fs_entry *m = fs_find(FS_HANDLE, mc);
	if (m != NULL)
		unpin(binding_key(m->aux, index, offset));
	fs_unlock(&fs_state_lock);
	return r;
}
