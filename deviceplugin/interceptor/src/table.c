// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// One open-addressing table for everything that this process holds. Its memory
// comes from mmap: an allocator that is being initialised may be what called us.

#include "internal.h"

#include <stdlib.h>
#include <sys/mman.h>

static struct fs_entry *table;
static size_t capacity; // a power of two, or 0
static size_t count;

static size_t home(enum fs_kind kind, uint64_t key)
{
	uint64_t h = (key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15ull;
	return (size_t)(h ^ h >> 32) & (capacity - 1);
}

void fs_table_forked(void)
{
	if (table != NULL)
		munmap(table, capacity * sizeof *table);
	table = NULL;
	capacity = count = 0;
}

static void put(const struct fs_entry *e)
{
	size_t i = home((enum fs_kind)e->kind, e->key);
	while (table[i].kind != FS_NONE)
		i = (i + 1) & (capacity - 1);
	table[i] = *e;
}

static bool grow(void)
{
	struct fs_entry *old = table;
	size_t old_capacity = capacity, wider = capacity ? capacity * 2 : 1024;
	struct fs_entry *fresh = mmap(NULL, wider * sizeof *fresh, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fresh == MAP_FAILED)
		return false;
	table = fresh;
	capacity = wider;
	for (size_t i = 0; i < old_capacity; i++)
		if (old[i].kind != FS_NONE)
			put(&old[i]);
	if (old != NULL)
		munmap(old, old_capacity * sizeof *old);
	return true;
}

struct fs_entry *fs_find(enum fs_kind kind, uint64_t key)
{
	if (capacity == 0)
		return NULL;
	for (size_t i = home(kind, key); table[i].kind != FS_NONE; i = (i + 1) & (capacity - 1))
		if (table[i].key == key && table[i].kind == kind)
			return &table[i];
	return NULL;
}

// fs_insert returns NULL when the system has no memory left for the table.
struct fs_entry *fs_insert(const struct fs_entry *e)
{
	struct fs_entry *at = fs_find((enum fs_kind)e->kind, e->key);
	if (at != NULL) {
		*at = *e;
		return at;
	}
	if (count * 2 >= capacity && !grow())
		return NULL;
	put(e);
	count++;
	return fs_find((enum fs_kind)e->kind, e->key);
}

static void remove_at(size_t i)
{
	size_t hole = i;
	for (size_t j = (i + 1) & (capacity - 1); table[j].kind != FS_NONE; j = (j + 1) & (capacity - 1)) {
		size_t h = home((enum fs_kind)table[j].kind, table[j].key);
		// Entry j may fill the hole unless its home lies cyclically in (hole, j].
		bool stays = hole <= j ? (hole < h && h <= j) : (hole < h || h <= j);
		if (stays)
			continue;
		table[hole] = table[j];
		hole = j;
	}
	table[hole].kind = FS_NONE;
	count--;
}

bool fs_remove(enum fs_kind kind, uint64_t key, struct fs_entry *old)
{
	struct fs_entry *at = fs_find(kind, key);
	if (at == NULL)
		return false;
	if (old != NULL)
		*old = *at;
	remove_at((size_t)(at - table));
	return true;
}

bool fs_exists(fs_match match, const void *arg)
{
	for (size_t i = 0; i < capacity; i++)
		if (table[i].kind != FS_NONE && match(&table[i], arg))
			return true;
	return false;
}

// fs_remove_any takes out one entry that matches; callers repeat it until there
// is none. It scans, and serves only ends of contexts, arrays and the like.
bool fs_remove_any(fs_match match, const void *arg, struct fs_entry *old)
{
	for (size_t i = 0; i < capacity; i++) {
		if (table[i].kind == FS_NONE || !match(&table[i], arg))
			continue;
		*old = table[i];
		remove_at(i);
		return true;
	}
	return false;
}
