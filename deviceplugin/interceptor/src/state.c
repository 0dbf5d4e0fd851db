// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// When the library starts, and starts over. The mode lives in a page that the
// kernel hands to a child of fork as zeroes, whichever way the child was made:
// the first call in the child finds FS_UNSET and forgets what its parent held.

#include "internal.h"

#include <pthread.h>
#include <sys/mman.h>

struct wiped {
	_Atomic uint32_t mode;
	struct fs_lock lock;
};

static struct wiped before_main; // until the constructor has run
static struct wiped *state = &before_main;
static _Atomic bool started;
_Atomic uint32_t *fs_mode_word = &before_main.mode;

static void forget(void)
{
	atomic_store(&state->mode, FS_UNSET);
	state->lock.word = 0;
}

__attribute__((constructor)) static void on_load(void)
{
	struct wiped *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED) {
		page->mode = atomic_load(&state->mode);
		state = page;
		fs_mode_word = &page->mode;
		if (madvise(page, sizeof *page, MADV_WIPEONFORK) != 0)
			pthread_atfork(NULL, NULL, forget); // kernels before 4.14
	}
	if (fs_region_open(true) == FS_ON)
		fs_release_stale_slot();
}

static void start_over(void)
{
	fs_state_lock.word = 0;
	fs_small_lock.word = 0;
	fs_region_forked();
	fs_table_forked();
	fs_devices_forked();
	fs_pools_forked();
	fs_graphs_forked();
	fs_contexts_forked();
	fs_throttle_forked();
	fs_nvml_forked();
}

enum fs_mode fs_start(void)
{
	fs_lock(&state->lock);
	uint32_t mode = atomic_load(&state->mode);
	if (mode == FS_UNSET) {
		if (atomic_exchange(&started, true))
			start_over();
		mode = fs_region_open(false);
		atomic_store_explicit(&state->mode, mode, memory_order_release);
	}
	fs_unlock(&state->lock);
	return (enum fs_mode)mode;
}
