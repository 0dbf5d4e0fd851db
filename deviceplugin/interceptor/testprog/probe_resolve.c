// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: the ways in which a program reaches the driver.

#include "functions.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct functions f;

static void *(*other_dlsym)(void *, const char *);
static void *(*other)(const char *);
static void *cuda;
static int version = 13040;
static uint64_t flags;

static void *by_dlsym(const char *name) { return other_dlsym(cuda, name); }
static void *by_next(const char *name) { return dlsym(RTLD_NEXT, name); }
static void *by_deepbind(const char *name) { return other(name); }

// version_of is the version to ask for where a name's parameters depend on it, so
// that the answer has the form that we call.
static int version_of(const char *name)
{
	static const struct {
		const char *name;
		int version;
	} of[] = {
		{"cuMemAlloc", 2000}, {"cuMemFree", 2000}, {"cuMemAllocPitch", 2000}, {"cuMemGetInfo", 2000}, {"cuDeviceTotalMem", 2000},
		{"cuArrayCreate", 2000}, {"cuArray3DCreate", 2000}, {"cuCtxCreate", 2000}, {"cuCtxDestroy", 2000},
		{"cuCtxCreate_v2", 4000}, {"cuCtxCreate_v3", 11040}, {"cuCtxCreate_v4", 12050},
		{"cuDevicePrimaryCtxRelease", 7000}, {"cuDevicePrimaryCtxReset", 7000}, {"cuDeviceGetUuid", 9020}, {"cuCtxSynchronize", 12050},
		{"cuGraphAddNode", 12020}, {"cuGraphAddNode_v2", 12030}, {"cuGraphAddNode_v3", 13040},
		{"cuGraphInstantiate", 10000}, {"cuGraphInstantiate_v2", 11000},
		{"cuMulticastBindMem", 12050}, {"cuMulticastBindAddr", 12050}, {"cuMulticastBindMem_v2", 13010}, {"cuMulticastBindAddr_v2", 13010},
	};
	for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
		if (strcmp(of[i].name, name) == 0)
			return of[i].version;
	return version;
}

static void *by_proc(const char *name)
{
	static CUresult (*get)(const char *, void **, int, uint64_t, int *);
	char base[96];
	void *p = NULL;
	if (get == NULL) // a runtime gets it from dlsym, as cuGetProcAddress
		get = (CUresult(*)(const char *, void **, int, uint64_t, int *))dlsym(cuda, "cuGetProcAddress_v2");
	snprintf(base, sizeof base, "%s", name);
	size_t n = strlen(base);
	if (n > 3 && base[n - 3] == '_' && base[n - 2] == 'v')
		base[n - 3] = 0;
	int ask = version_of(name);
	int status = 0;
	return get(base, &p, ask, flags, &status) == CUDA_SUCCESS ? p : dlsym(cuda, name);
}

int resolve_all(const char *way)
{
	void *(*find)(const char *) = NULL;
	if (strcmp(way, "link") == 0) {
#define LINKED(name, args) f.name = name;
		FUNCTIONS(LINKED)
#undef LINKED
		return 0;
	}
	cuda = dlopen("libcuda.so.1", RTLD_LAZY);
	other_dlsym = dlsym;
	if (strcmp(way, "dlsym") == 0)
		find = by_dlsym;
	else if (strcmp(way, "dlvsym") == 0) {
		other_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5");
		find = by_dlsym;
	} else if (strcmp(way, "dlvsym-new") == 0) {
		other_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34");
		find = by_dlsym;
	} else if (strcmp(way, "next") == 0)
		find = by_next;
	else if (strncmp(way, "proc", 4) == 0) {
		find = by_proc;
		flags = strcmp(way, "proc-ptsz") == 0 ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
		version = strcmp(way, "proc-old") == 0 ? 12080 : 13040;
	} else if (strncmp(way, "deepbind", 8) == 0) {
		void *lib = dlopen(getenv("PROBE_DEEPBIND"), RTLD_NOW | RTLD_DEEPBIND);
		if (lib == NULL) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		other = (void *(*)(const char *))dlsym(lib, strcmp(way, "deepbind") ? "deepbind_dlsym" : "deepbind_linked");
		find = by_deepbind;
	}
	if (find == NULL)
		return 1;
#define FOUND(name, args)                                                   \
	f.name = (name##_fn)find(#name);                                    \
	if (f.name == NULL)                                                 \
		return fprintf(stderr, "%s not found by %s\n", #name, way);
	FUNCTIONS(FOUND)
#undef FOUND
	return 0;
}

// address_text says which function cuGetProcAddress answers with, and whose it is.
const char *address_text(const char *base, int for_version, uint64_t with_flags)
{
	static char text[128];
	void *p = NULL;
	Dl_info i;
	int status = 0;
	CUresult r = cuGetProcAddress_v2(base, &p, for_version, with_flags, &status);
	if (r != CUDA_SUCCESS || dladdr(p, &i) == 0)
		snprintf(text, sizeof text, "none");
	else
		snprintf(text, sizeof text, "%s of %s", i.dli_sname ? i.dli_sname : "?", strstr(i.dli_fname, "libfairslice") ? "the interceptor" : "the driver");
	return text;
}

// symbol_text says the same of dlsym; a name of no library is not made up.
const char *symbol_text(const char *name)
{
	static char text[128];
	Dl_info i;
	void *p = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name);
	if (p == NULL || dladdr(p, &i) == 0)
		return "none";
	snprintf(text, sizeof text, "%s of %s", i.dli_sname ? i.dli_sname : "?", strstr(i.dli_fname, "libfairslice") ? "the interceptor" : "the driver");
	return text;
}
