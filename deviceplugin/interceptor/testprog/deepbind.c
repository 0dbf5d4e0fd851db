// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: a library to be opened with RTLD_DEEPBIND. It links the driver, and
// therefore binds past whatever is preloaded.

#include "functions.h"

#include <dlfcn.h>
#include <string.h>

void *deepbind_linked(const char *name);
void *deepbind_dlsym(const char *name);

static struct {
	const char *name;
	void *at;
} table[] = {
#define ROW(name, args) {#name, NULL},
	FUNCTIONS(ROW)
#undef ROW
};

// Read at call time, from this library's own slots.
void *deepbind_linked(const char *name)
{
	int i = 0;
#define FILL(name, args) table[i++].at = (void *)name;
	FUNCTIONS(FILL)
#undef FILL
	for (size_t j = 0; j < sizeof table / sizeof table[0]; j++)
		if (strcmp(table[j].name, name) == 0)
			return table[j].at;
	return NULL;
}

void *deepbind_dlsym(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name); }
