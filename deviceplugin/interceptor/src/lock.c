// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

#include "internal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

struct fs_lock fs_state_lock;

// The word is 0 free, 1 held, 2 held with waiters.
void fs_lock_slow(struct fs_lock *l)
{
	for (int spin = 0; spin < 64; spin++) {
		uint32_t free = 0;
		if (atomic_compare_exchange_weak_explicit(&l->word, &free, 1, memory_order_acquire, memory_order_relaxed))
			return;
	}
	while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &l->word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0);
}

void fs_unlock_slow(struct fs_lock *l)
{
	syscall(SYS_futex, &l->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}
