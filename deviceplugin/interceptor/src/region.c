// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// The container's budget: reserving, releasing and reading it.

#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define REGION_DIR "/run/fairslice"

static const struct fs_limits *limits;
static struct fs_usage *usage;
static struct fs_lock claim_lock;
static _Atomic uint64_t my_identity;
static _Atomic(struct fs_slot *) my_slot;
static _Atomic uint64_t my_generation;
static _Atomic uint64_t my_used[FS_MAX_DEVICES]; // what the slot must show, should the agent empty it

static void *map_file(const char *dir, const char *name, size_t size, bool writable)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	void *at = NULL;
	// A file that is too short would raise SIGBUS on access.
	if (lseek(fd, 0, SEEK_END) >= (off_t)size) {
		at = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
		if (at == MAP_FAILED)
			at = NULL;
	}
	close(fd);
	return at;
}

// env_number is false for a value that is not a number.
static bool env_number(const char *name, uint64_t *n)
{
	const char *p = getenv(name);
	if (p == NULL || *p == 0)
		return true;
	*n = 0;
	for (; *p >= '0' && *p <= '9'; p++)
		*n = fs_add(fs_mul(*n, 10), (uint64_t)(*p - '0'));
	return *p == 0;
}

static enum fs_mode closed(bool quiet, const char *where, const char *what)
{
	if (!quiet)
		fs_say("the GPU budget in %s cannot be used (%s); no GPU memory will be granted", where, what);
	return FS_CLOSED;
}

// limits_from_environment serves a program that is run by hand, without a node
// agent: one budget per process for every GPU. It is never reached where a
// region is mounted.
static enum fs_mode limits_from_environment(bool quiet)
{
	uint64_t mib = 0, milli = 1000;
	if (!env_number("FAIRSLICE_GPU_MEMORY_MIB", &mib) || !env_number("FAIRSLICE_GPU_MILLI", &milli))
		return closed(quiet, "the environment", "FAIRSLICE_GPU_MEMORY_MIB or FAIRSLICE_GPU_MILLI is not a number");
	if (mib == 0 && (milli == 0 || milli >= 1000))
		return FS_OFF;
	struct fs_limits *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l == MAP_FAILED || usage == MAP_FAILED)
		return FS_CLOSED;
	l->device_count = FS_MAX_DEVICES;
	for (int i = 0; i < FS_MAX_DEVICES; i++) {
		atomic_store(&l->device[i].memory_bytes, mib ? fs_mul(mib, 1 << 20) : FS_UNLIMITED);
		atomic_store(&l->device[i].compute_milli, milli > 0 && milli <= 1000 ? (uint32_t)milli : 1000);
	}
	limits = l;
	return FS_ON;
}

enum fs_mode fs_region_open(bool quiet)
{
	if (limits != NULL)
		return FS_ON;
	const char *dir = REGION_DIR;
	if (access(REGION_DIR "/limits", F_OK) != 0 && errno == ENOENT) {
		dir = getauxval(AT_SECURE) ? NULL : getenv("FAIRSLICE_REGION");
		if (dir == NULL || *dir == 0)
			return getauxval(AT_SECURE) ? FS_OFF : limits_from_environment(quiet);
	}
	const struct fs_limits *l = map_file(dir, "limits", sizeof *l, false);
	if (l == NULL || l->magic != FS_LIMITS_MAGIC)
		return closed(quiet, dir, "the file limits is missing, unreadable or not a limits file");
	if (l->version != FS_REGION_VERSION || l->device_count > FS_MAX_DEVICES)
		return closed(quiet, dir, "the file limits has another version than this library");
	struct fs_usage *u = map_file(dir, "usage", sizeof *u, true);
	if (u == NULL || u->magic != FS_USAGE_MAGIC || u->version != FS_REGION_VERSION || u->slot_count != FS_MAX_SLOTS)
		return closed(quiet, dir, "the file usage is missing, not writable or not a usage file of version 1");
	usage = u;
	limits = l;
	return FS_ON;
}

static uint64_t slots_high(void)
{
	uint64_t n = atomic_load(&usage->slots_high);
	return n < FS_MAX_SLOTS ? n : FS_MAX_SLOTS;
}

static void empty_slot(struct fs_slot *s)
{
	for (int d = 0; d < FS_MAX_DEVICES; d++) {
		atomic_store(&s->device[d].pending, 0);
		atomic_store(&s->device[d].used, 0);
	}
	atomic_store(&s->pid, 0);
	atomic_store(&s->owner, 0);
}

// sweep frees the slots of processes that are gone. A sweeper first takes the
// slot over with its own identity, so that of two sweepers one wins, and a
// sweeper that is killed is swept in turn.
static bool sweep(void)
{
	bool freed = false;
	uint64_t me = atomic_load(&my_identity), high = slots_high();
	if (me == 0)
		atomic_store(&my_identity, me = fs_identity());
	for (uint64_t i = 0; i < high; i++) {
		struct fs_slot *s = &usage->slot[i];
		uint64_t owner = atomic_load(&s->owner);
		if (owner == 0 || (owner & ~FS_SWEEPING) == me || !fs_identity_dead(owner & ~FS_SWEEPING, me))
			continue;
		if (!atomic_compare_exchange_strong(&s->owner, &owner, me | FS_SWEEPING))
			continue;
		empty_slot(s);
		freed = true;
	}
	return freed;
}

static struct fs_slot *claim(uint64_t me)
{
	for (uint64_t i = 0; i < FS_MAX_SLOTS; i++) {
		uint64_t free = 0;
		struct fs_slot *s = &usage->slot[i];
		// The mark rises before the claim: who sums up to the mark sees every claimed slot.
		uint64_t high = atomic_load(&usage->slots_high);
		while (high < i + 1 && !atomic_compare_exchange_weak(&usage->slots_high, &high, i + 1))
			;
		if (atomic_compare_exchange_strong(&s->owner, &free, me)) {
			atomic_store(&s->pid, fs_identity_pid(me));
			return s;
		}
	}
	return NULL;
}

// fs_release_stale_slot runs when the library is loaded. A slot that carries
// this process's identity belongs to the program that ran before exec.
void fs_release_stale_slot(void)
{
	if (usage == NULL)
		return;
	uint64_t me = fs_identity(), high = slots_high();
	for (uint64_t i = 0; i < high; i++)
		if ((atomic_load(&usage->slot[i].owner) & ~FS_SWEEPING) == me)
			empty_slot(&usage->slot[i]);
}

void fs_region_forked(void)
{
	claim_lock.word = 0;
	atomic_store(&my_slot, NULL);
	atomic_store(&my_identity, 0);
	for (int d = 0; d < FS_MAX_DEVICES; d++)
		atomic_store(&my_used[d], 0);
}

static struct fs_slot *slot_slow(void)
{
	fs_lock(&claim_lock);
	uint64_t generation = atomic_load(&usage->generation);
	struct fs_slot *s = atomic_load(&my_slot);
	if (s == NULL || atomic_load(&my_generation) != generation) {
		uint64_t me = fs_identity();
		atomic_store(&my_identity, me);
		s = claim(me);
		if (s == NULL && sweep())
			s = claim(me);
		for (int d = 0; s != NULL && d < FS_MAX_DEVICES; d++)
			atomic_store(&s->device[d].used, atomic_load(&my_used[d]));
		atomic_store(&my_generation, generation);
		atomic_store(&my_slot, s);
	}
	fs_unlock(&claim_lock);
	return s;
}

static struct fs_slot *slot(void)
{
	struct fs_slot *s = atomic_load_explicit(&my_slot, memory_order_acquire);
	if (likely(s != NULL && atomic_load_explicit(&my_generation, memory_order_relaxed) ==
					atomic_load_explicit(&usage->generation, memory_order_relaxed)))
		return s;
	return slot_slow();
}

void fs_presence(void)
{
	if (usage != NULL)
		slot();
}

struct totals {
	uint64_t used;
	uint64_t pending;
};

// add_up reads pending before used: a grant first raises used and then clears
// pending, so a reader may count it twice but can never miss it.
static struct totals add_up(int dev)
{
	struct totals t = {0, 0};
	uint64_t high = slots_high();
	for (uint64_t i = 0; i < high; i++) {
		struct fs_amount *a = &usage->slot[i].device[dev];
		t.pending = fs_add(t.pending, atomic_load(&a->pending));
		t.used = fs_add(t.used, atomic_load(&a->used));
	}
	return t;
}

static void subtract(_Atomic uint64_t *from, uint64_t n)
{
	uint64_t old = atomic_load(from);
	while (!atomic_compare_exchange_weak(from, &old, fs_sub(old, n)))
		;
}

static void add(_Atomic uint64_t *to, uint64_t n)
{
	uint64_t old = atomic_load(to);
	while (!atomic_compare_exchange_weak(to, &old, fs_add(old, n)))
		;
}

static void grant(struct fs_slot *s, int dev, uint64_t bytes)
{
	add(&my_used[dev], bytes);
	add(&s->device[dev].used, bytes);
}

static void back_off(int attempt)
{
	if (attempt < 4) {
		sched_yield();
		return;
	}
	// Different processes wait for different times, so one of them gets through.
	long ns = (long)(fs_identity_pid(atomic_load(&my_identity)) * 2654435761u % 1024) * 128 + 10000l * attempt;
	struct timespec t = {0, ns < 1000000 ? ns : 1000000};
	nanosleep(&t, NULL);
}

// settled tells that usage alone, without requests in flight, leaves no room,
// and that it was so at one instant: two equal readings in a row.
static bool settled_full(int dev, uint64_t bytes, uint64_t limit)
{
	struct totals before = add_up(dev);
	for (int i = 0; i < 64; i++) {
		struct totals now = add_up(dev);
		if (fs_add(now.used, bytes) <= limit)
			return false;
		if (now.used == before.used && now.pending == before.pending)
			return true;
		before = now;
	}
	return true;
}

// fs_charge announces the request, adds everything up and keeps it if the sum
// fits. Of two requests that cannot both fit, the later to announce sees the
// earlier, so never more than the limit is granted. Where only requests in
// flight are in the way it withdraws and tries again; a peer that is stopped in
// that very window can delay it, not hang it.
bool fs_charge(int dev, uint64_t bytes)
{
	if (dev < 0 || bytes == 0)
		return dev != FS_DEV_FOREIGN;
	struct fs_slot *s = slot();
	if (s == NULL)
		return false;
	for (int attempt = 0; attempt < 400; attempt++) {
		uint64_t limit = fs_limit_of(dev);
		if (bytes > limit)
			return false;
		add(&s->device[dev].pending, bytes);
		struct totals t = add_up(dev);
		bool fits = fs_add(t.used, t.pending) <= limit;
		if (fits)
			grant(s, dev, bytes);
		subtract(&s->device[dev].pending, bytes);
		if (fits)
			return true;
		if (fs_add(t.used, bytes) > limit && settled_full(dev, bytes, limit) && !sweep())
			return false;
		if (attempt > 8)
			sweep(); // a request in flight may be that of a dead process
		back_off(attempt);
	}
	return false;
}

void fs_charge_anyway(int dev, uint64_t bytes)
{
	struct fs_slot *s = dev >= 0 && bytes ? slot() : NULL;
	if (s != NULL)
		grant(s, dev, bytes);
}

void fs_uncharge(int dev, uint64_t bytes)
{
	struct fs_slot *s = dev >= 0 && bytes ? slot() : NULL;
	if (s == NULL)
		return;
	subtract(&my_used[dev], bytes);
	subtract(&s->device[dev].used, bytes);
}

uint64_t fs_limit_of(int dev) { return atomic_load_explicit(&limits->device[dev].memory_bytes, memory_order_relaxed); }
uint64_t fs_context_bytes(int dev) { return dev < 0 ? 0 : atomic_load(&limits->device[dev].context_bytes); }
uint32_t fs_region_flags(void) { return limits ? limits->flags : 0; }
struct fs_device_state *fs_device_state(int dev) { return &usage->device[dev]; }

uint32_t fs_compute_milli(int dev)
{
	if (dev < 0 || limits == NULL)
		return 1000;
	uint32_t m = atomic_load_explicit(&limits->device[dev].compute_milli, memory_order_relaxed);
	return m >= 1 && m < 1000 ? m : 1000;
}

bool fs_any_throttled(void)
{
	for (uint32_t i = 0, n = limits ? limits->device_count : 0; i < n; i++)
		if (atomic_load_explicit(&limits->device[i].compute_milli, memory_order_relaxed) - 1u < 999u)
			return true;
	return false;
}

uint64_t fs_used_by_container(int dev)
{
	slot();
	sweep();
	return add_up(dev).used;
}

int fs_device_by_uuid(const uint8_t uuid[16], int ordinal)
{
	static const uint8_t none[16];
	for (uint32_t i = 0; limits != NULL && i < limits->device_count; i++) {
		const uint8_t *u = limits->device[i].uuid;
		if (memcmp(u, uuid, 16) == 0 || (ordinal == (int)i && memcmp(u, none, 16) == 0))
			return (int)i;
	}
	return -1;
}

int fs_processes(int dev, uint32_t *pids, uint64_t *bytes, int max)
{
	int n = 0;
	if (usage == NULL)
		return 0;
	sweep();
	uint64_t high = slots_high();
	for (uint64_t i = 0; i < high && n < max; i++) {
		struct fs_slot *s = &usage->slot[i];
		uint64_t owner = atomic_load(&s->owner), used = atomic_load(&s->device[dev].used);
		if (owner == 0 || (owner & FS_SWEEPING) || used == 0)
			continue;
		pids[n] = atomic_load(&s->pid);
		bytes[n++] = used;
	}
	return n;
}
