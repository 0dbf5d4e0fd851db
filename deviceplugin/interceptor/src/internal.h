// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// What the files of libfairslice.so share. Nothing here is exported.

#ifndef FAIRSLICE_INTERNAL_H
#define FAIRSLICE_INTERNAL_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_abi.h"
#include "nvml_abi.h"
#include "region.h"

#define FS_EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

// ---- lock.c: a futex lock, since pthread_mutex_* would tie the library to one
// glibc, and since a child of fork can simply zero it.
struct fs_lock { _Atomic uint32_t word; };
void fs_lock_slow(struct fs_lock *l);
void fs_unlock_slow(struct fs_lock *l);
static inline void fs_lock(struct fs_lock *l)
{
	uint32_t free = 0;
	if (unlikely(!atomic_compare_exchange_strong_explicit(&l->word, &free, 1, memory_order_acquire, memory_order_relaxed)))
		fs_lock_slow(l);
}
static inline void fs_unlock(struct fs_lock *l)
{
	if (unlikely(atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2))
		fs_unlock_slow(l);
}
extern struct fs_lock fs_state_lock; // guards the table, the pools and the objects
extern struct fs_lock fs_small_lock; // taken before fs_state_lock

// ---- process.c
uint64_t fs_identity(void);                 // of the calling process, never 0
bool fs_identity_dead(uint64_t identity, uint64_t me); // true only when certain
uint32_t fs_identity_pid(uint64_t identity);
#define FS_SWEEPING (1ull << 63)            // flag on an identity: the owner is emptying a dead slot

// ---- region.c
enum fs_mode { FS_UNSET = 0, FS_OFF, FS_ON, FS_CLOSED };
enum fs_mode fs_region_open(bool quiet);    // FS_CLOSED: a region exists but cannot be used, refuse all
bool fs_charge(int dev, uint64_t bytes);    // false: would pass the limit
void fs_charge_anyway(int dev, uint64_t bytes);
void fs_uncharge(int dev, uint64_t bytes);  // saturates at 0
uint64_t fs_limit_of(int dev);
uint64_t fs_used_by_container(int dev);     // drops dead processes first
uint64_t fs_context_bytes(int dev);
uint32_t fs_compute_milli(int dev);
bool fs_any_throttled(void);
uint32_t fs_region_flags(void);
int fs_device_by_uuid(const uint8_t uuid[16], int ordinal); // -1: not in the limits
int fs_processes(int dev, uint32_t *pids, uint64_t *bytes, int max);
struct fs_device_state *fs_device_state(int dev);
void fs_release_stale_slot(void);           // after exec: same process, other program
void fs_region_forked(void);
void fs_presence(void);                     // claims the slot

// ---- state.c: one word that a child of fork sees as zero
extern _Atomic uint32_t *fs_mode_word;
enum fs_mode fs_start(void);
static inline enum fs_mode fs_mode_now(void)
{
	uint32_t m = atomic_load_explicit(fs_mode_word, memory_order_acquire);
	return likely(m != FS_UNSET) ? (enum fs_mode)m : fs_start();
}

// ---- say.c: one line to stderr, without stdio
void fs_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fs_say_once(_Atomic uint32_t *said, const char *format, ...) __attribute__((format(printf, 2, 3)));
CUresult fs_refuse(int dev, uint64_t bytes, const char *call); // says why, once; counts; CUDA_ERROR_OUT_OF_MEMORY

// ---- table.c: what this process holds, by kind and key
enum fs_kind {
	FS_NONE = 0,
	FS_LINEAR,   // key pointer, size asked, bytes charged for pages of its own
	FS_PAGE,     // key page number, bytes = allocations that share it, size = how far it was ever filled
	FS_POOLED,   // key pointer from a stream-ordered pool, aux = pool number
	FS_ARRAY,    // key array or mipmapped array
	FS_OBJECT,   // key object number: physical memory of cuMemCreate
	FS_HANDLE,   // key handle, aux = object, bytes = references through it
	FS_MAPPING,  // key address, size, aux = object
	FS_PIN,      // key hash of the place, aux = object, owner = array or multicast handle
	FS_EXPORTED, // key shareable handle, aux = object
	FS_CONTEXT,  // key context, bytes = overhead charged
	FS_CTXLIMIT, // key context and limit, bytes charged above the first value (size)
	FS_EXEC,     // key executable graph and device, bytes = peak of its allocation nodes, size = what it leaves, flags = has run
};
struct fs_entry {
	uint64_t key;
	uint64_t bytes;
	uint64_t size;
	uint64_t aux;
	uint64_t owner; // context, array or multicast object whose end ends this one
	uint16_t kind;
	int16_t dev;
	uint32_t flags;
};
struct fs_entry *fs_find(enum fs_kind kind, uint64_t key);            // under fs_state_lock
struct fs_entry *fs_insert(const struct fs_entry *e);                 // replaces an entry of equal key
bool fs_remove(enum fs_kind kind, uint64_t key, struct fs_entry *old); // under fs_state_lock
typedef bool (*fs_match)(const struct fs_entry *e, const void *arg);
bool fs_remove_any(fs_match match, const void *arg, struct fs_entry *old);
bool fs_exists(fs_match match, const void *arg);
void fs_table_forked(void);

// ---- resolve.c: the real functions
enum fs_symbol {
#define FS_HOOK(sym, base, ver, class, what) FS_##sym,
#define FS_HOOK_STREAM(sym, base, ver, class, what) FS_##sym, FS_##sym##_ptsz,
#define FS_NVML(sym, what) FS_##sym,
#define FS_PASS(sym, class, why)
#include "entrypoints.def"
#undef FS_HOOK
#undef FS_HOOK_STREAM
#undef FS_NVML
#undef FS_PASS
#define FS_CALL(sym, args) FS_CALL_##sym,
#include "calls.def"
#undef FS_CALL
	FS_SYMBOL_COUNT
};
enum fs_library { FS_LIBCUDA, FS_LIBNVML };
extern void *fs_real[FS_SYMBOL_COUNT]; // to be read only once the library is resolved
extern void *fs_opened[2];             // by library: set when all of it is resolved
static inline bool fs_resolved(enum fs_library library)
{
	return likely(__atomic_load_n(&fs_opened[library], __ATOMIC_ACQUIRE) != NULL);
}
bool fs_resolve(enum fs_library library);

#define FS_CALL(sym, args) typedef CUresult(*fs_##sym##_fn) args;
#include "calls.def"
#undef FS_CALL
#define CALL(sym) ((fs_##sym##_fn)fs_real[FS_CALL_##sym])
#define HAS(sym) (fs_real[FS_CALL_##sym] != NULL)

// Every hook of the driver begins with FS_ENTER: it finds the real function and
// hands over to it at once where nothing is limited.
#define FS_ENTER(sym, args)                                                           \
	enum fs_mode mode_ = fs_mode_now();                                           \
	if (!fs_resolved(FS_LIBCUDA) && !fs_resolve(FS_LIBCUDA))                      \
		return CUDA_ERROR_NO_DEVICE;                                          \
	__typeof__(&sym) real = (__typeof__(&sym))fs_real[FS_##sym];                  \
	if (unlikely(real == NULL))                                                   \
		return CUDA_ERROR_NOT_FOUND; /* older driver */                       \
	if (unlikely(mode_ == FS_OFF))                                                \
		return real args

// While some thread captures a graph, a driver call of ours that the program did
// not make could spoil the capture. Between these two it cannot.
static inline int fs_aside(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (HAS(cuThreadExchangeStreamCaptureMode))
		CALL(cuThreadExchangeStreamCaptureMode)(&mode);
	return mode;
}
static inline void fs_aside_ends(int mode)
{
	if (HAS(cuThreadExchangeStreamCaptureMode))
		CALL(cuThreadExchangeStreamCaptureMode)(&mode);
}

// ---- device.c
enum { FS_DEV_NONE = -1, FS_DEV_FOREIGN = -2 };
struct fs_here {
	CUcontext ctx; // NULL: the thread has none, and the driver will say so
	CUdevice ordinal;
	int dev; // index into the limits, FS_DEV_NONE or FS_DEV_FOREIGN
};
struct fs_here fs_here(void);
int fs_device_of(CUdevice ordinal);
int fs_device_of_location(const CUmemLocation *where); // FS_DEV_NONE for host memory
CUdevice fs_ordinal_of(int dev);
uint64_t fs_granularity(int dev);
void fs_devices_forked(void);

// ---- linear.c, pools.c, graphs.c: what other files need of them
bool fs_take(int dev, uint64_t bytes); // fs_charge, and again after handing back idle pool memory
void fs_give(int dev, uint64_t bytes);
void fs_pools_reclaim(int dev);
void fs_pools_settle(void);
void fs_pools_forked(void);
bool fs_linear_free_begin(CUdeviceptr ptr, struct fs_entry *old);
void fs_linear_free_end(const struct fs_entry *old, bool freed);
bool fs_pool_free_begin(CUdeviceptr ptr, struct fs_entry *old);
void fs_pool_free_end(const struct fs_entry *old, bool freed);
void fs_graphs_settle(int dev);
void fs_graphs_reclaim(int dev);
void fs_graphs_forked(void);
extern _Atomic uint32_t fs_pools_active;  // this process has charged pools
extern _Atomic uint32_t fs_graphs_active; // this process has graphs that allocate
CUresult fs_graph_before(CUgraphExec exec, const char *call);
void fs_graph_after(CUgraphExec exec);
void fs_pins_dropped(uint64_t owner);
void fs_context_gone(CUcontext ctx, bool with_overhead);
void fs_context_seen(CUcontext ctx, int dev);
void fs_contexts_forked(void);
bool fs_capturing(CUstream stream, bool per_thread);
void fs_throttle_forked(void);
void fs_nvml_forked(void);
void fs_throttle_context_gone(CUcontext ctx);

static inline uint64_t fs_add(uint64_t a, uint64_t b)
{
	uint64_t r;
	return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}
static inline uint64_t fs_mul(uint64_t a, uint64_t b)
{
	uint64_t r;
	return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}
static inline uint64_t fs_sub(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static inline uint64_t fs_round_up(uint64_t n, uint64_t to)
{
	if (to == 0)
		return n;
	uint64_t rest = n % to;
	return rest ? fs_add(n, to - rest) : n;
}

#endif
