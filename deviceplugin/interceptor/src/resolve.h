// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Between the files that resolve symbols.

#ifndef FAIRSLICE_RESOLVE_H
#define FAIRSLICE_RESOLVE_H

#include <stdbool.h>

// libc.c: the dynamic linker's own functions.
extern void *fs_libc_dlsym, *fs_libc_dlvsym, *fs_libc_dlopen;
bool fs_find_libc(void);

// resolve.c: our function of that name, or that stands in for that address.
void *fs_wrapper_named(const char *symbol);
void *fs_wrapper_of(const void *real);
bool fs_stands_in_for(const char *symbol);
void *fs_answer(const char *symbol, void *found);
void fs_resolve_loaded(void);

// rebind.c: points what other modules have bound to the real functions at ours.
void fs_rebind(void);

#endif
