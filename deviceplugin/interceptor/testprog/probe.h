// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_abi.h"

struct outcome {
	CUresult result;
	uint64_t value; // what a name is given
	char text[256];
};
CUresult run_command(int argc, char **argv, struct outcome *o);
CUresult run_memory(int argc, char **argv, struct outcome *o, bool *known);
CUresult run_forms(int argc, char **argv, struct outcome *o, bool *known);
CUresult run_other(int argc, char **argv, struct outcome *o, bool *known);
void name_set(const char *name, uint64_t value);
uint64_t number(const char *text);
const char *size_text(uint64_t n);

#define IS(word) (strcmp(argv[0], word) == 0)
#define ARG(i) (argc > (i) ? argv[i] : NULL)
#define NUM(i) number(ARG(i))
#define PTR(i) ((void *)(uintptr_t)number(ARG(i)))

#endif
