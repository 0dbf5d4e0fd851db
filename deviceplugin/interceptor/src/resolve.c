// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// The real functions of libcuda.so.1 and libnvidia-ml.so.1, and the way from a
// real function to the one that stands in for it.

#include "internal.h"
#include "resolve.h"

#include <dlfcn.h>
#include <string.h>

void *fs_real[FS_SYMBOL_COUNT];
void *fs_opened[2];

// The wrappers have many types; here only their addresses matter, so they are
// declared under other names bound to the same symbols.
#define FS_HOOK(sym, base, ver, class, what) extern char fs_at_##sym __asm__(#sym);
#define FS_HOOK_STREAM(sym, base, ver, class, what) \
	extern char fs_at_##sym __asm__(#sym), fs_at_##sym##_ptsz __asm__(#sym "_ptsz");
#define FS_NVML(sym, what) extern char fs_at_##sym __asm__(#sym);
#define FS_PASS(sym, class, why)
#include "entrypoints.def"
#undef FS_HOOK
#undef FS_HOOK_STREAM
#undef FS_NVML

static const struct hook {
	const char *symbol;
	const char *base; // the name that cuGetProcAddress takes
	int version;      // CUDA version from which that name means this symbol
	bool per_thread;
	enum fs_library library;
	void *wrapper;
} hooks[] = {
#define FS_HOOK(sym, base, ver, class, what) {#sym, #base, ver, false, FS_LIBCUDA, &fs_at_##sym},
#define FS_HOOK_STREAM(sym, base, ver, class, what)          \
	{#sym, #base, ver, false, FS_LIBCUDA, &fs_at_##sym},       \
	{#sym "_ptsz", #base, ver, true, FS_LIBCUDA, &fs_at_##sym##_ptsz},
#define FS_NVML(sym, what) {#sym, "", 0, false, FS_LIBNVML, &fs_at_##sym},
#include "entrypoints.def"
};
#undef FS_HOOK
#undef FS_HOOK_STREAM
#undef FS_NVML
#undef FS_PASS
#define HOOKS (int)(sizeof hooks / sizeof hooks[0])

static const char *const calls[] = {
#define FS_CALL(sym, args) #sym,
#include "calls.def"
#undef FS_CALL
};

typedef void *(*dlsym_fn)(void *, const char *);
typedef void *(*dlopen_fn)(const char *, int);

static void find(int i, void *library, const char *symbol)
{
	void *real = ((dlsym_fn)fs_libc_dlsym)(library, symbol);
	if (real != NULL)
		__atomic_store_n(&fs_real[i], real, __ATOMIC_RELAXED);
}

// resolve finds the real functions of a library, and with load opens it first:
// a program that merely looks for a name must not get the driver loaded by us.
static bool resolve(enum fs_library library, bool load)
{
	static const char *const names[] = {[FS_LIBCUDA] = "libcuda.so.1", [FS_LIBNVML] = "libnvidia-ml.so.1"};
	if (fs_resolved(library))
		return true;
	if (!fs_find_libc())
		return false;
	dlopen_fn open = (dlopen_fn)fs_libc_dlopen;
	void *h = open(names[library], RTLD_LAZY | RTLD_NOLOAD);
	if (h == NULL && load)
		h = open(names[library], RTLD_LAZY);
	if (h == NULL)
		return false;
	// Two threads here at once write the same. A lock could be held by a thread that
	// dlsym keeps waiting for a dlopen whose constructors wait for the lock.
	for (int i = 0; i < HOOKS; i++)
		if (hooks[i].library == library)
			find(i, h, hooks[i].symbol);
	for (size_t i = 0; library == FS_LIBCUDA && i < sizeof calls / sizeof calls[0]; i++)
		find(HOOKS + (int)i, h, calls[i]);
	__atomic_store_n(&fs_opened[library], h, __ATOMIC_RELEASE);
	return true;
}

bool fs_resolve(enum fs_library library) { return resolve(library, true); }
void fs_resolve_loaded(void)
{
	resolve(FS_LIBCUDA, false);
	resolve(FS_LIBNVML, false);
}

// hook_named is called for every dlsym of the process, so it looks at the
// first letters before anything else.
static int hook_named(const char *symbol)
{
	if (symbol == NULL || !((symbol[0] == 'c' && symbol[1] == 'u') || (symbol[0] == 'n' && symbol[1] == 'v')))
		return -1;
	for (int i = 0; i < HOOKS; i++)
		if (strcmp(hooks[i].symbol, symbol) == 0)
			return i;
	return -1;
}

void *fs_wrapper_named(const char *symbol)
{
	int i = hook_named(symbol);
	return i < 0 ? NULL : hooks[i].wrapper;
}

void *fs_wrapper_of(const void *real)
{
	for (int i = 0; i < HOOKS; i++)
		if (fs_real[i] == real && real != NULL)
			return hooks[i].wrapper;
	return NULL;
}

// fs_answer turns what dlsym found into what it returns. Another library may
// define the same name, an interposer or a profiler; it is left alone, as it
// will reach the driver through us.
void *fs_answer(const char *symbol, void *found)
{
	int i = hook_named(symbol);
	if (i < 0 || found == NULL || found == hooks[i].wrapper)
		return found;
	if (!resolve(hooks[i].library, false))
		return found;
	return found == fs_real[i] ? hooks[i].wrapper : found;
}

bool fs_stands_in_for(const char *symbol) { return hook_named(symbol) >= 0; }

// ---- cuGetProcAddress

// by_version is for a driver whose cuGetProcAddress returns other addresses than
// its export table: the newest hook of that name that is not newer than asked.
static int by_version(const char *base, int version, bool per_thread)
{
	int best = -1;
	for (int pass = 0; pass < 2 && best < 0; pass++)
		for (int i = 0; i < HOOKS; i++) {
			const struct hook *h = &hooks[i];
			if (h->library != FS_LIBCUDA || strcmp(h->base, base) != 0 || h->version > version)
				continue;
			// A name without per-thread form has one form for both.
			if (h->per_thread == (pass == 0 ? per_thread : false) && (best < 0 || h->version > hooks[best].version))
				best = i;
		}
	return best;
}

// unknown_form tells whether the address is a newer export of that name, with an
// ABI that this library does not know.
static bool unknown_form(const char *base, const void *address)
{
	char name[96];
	size_t n = strlen(base);
	if (n + 10 > sizeof name)
		return false;
	memcpy(name, base, n);
	for (char v = '2'; v <= '9'; v++)
		for (int per_thread = 0; per_thread < 2; per_thread++) {
			name[n] = '_', name[n + 1] = 'v', name[n + 2] = v;
			memcpy(name + n + 3, per_thread ? "_ptsz" : "", per_thread ? 6 : 1);
			if (hook_named(name) < 0 && ((dlsym_fn)fs_libc_dlsym)(fs_opened[FS_LIBCUDA], name) == address)
				return true;
		}
	return false;
}

static void *stand_in(const char *base, int version, uint64_t flags, void *address)
{
	static _Atomic uint32_t said;
	void *w = fs_wrapper_of(address);
	if (w != NULL || address == NULL)
		return w ? w : address;
	int i = by_version(base, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
	if (i < 0)
		return address;
	if (unknown_form(base, address)) {
		fs_say_once(&said, "%s of CUDA %d is newer than this library and passes unhooked", base, version);
		return address;
	}
	if (fs_real[i] == NULL)
		fs_real[i] = address;
	return hooks[i].wrapper;
}

FS_EXPORT CUresult cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags)
{
	FS_ENTER(cuGetProcAddress, (symbol, out, version, flags));
	CUresult r = real(symbol, out, version, flags);
	if (r == CUDA_SUCCESS && out != NULL && symbol != NULL)
		*out = stand_in(symbol, version, flags, *out);
	return r;
}

FS_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *status)
{
	FS_ENTER(cuGetProcAddress_v2, (symbol, out, version, flags, status));
	CUresult r = real(symbol, out, version, flags, status);
	if (r == CUDA_SUCCESS && out != NULL && symbol != NULL)
		*out = stand_in(symbol, version, flags, *out);
	return r;
}
