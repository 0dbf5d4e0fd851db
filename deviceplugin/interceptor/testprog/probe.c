// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: a program that does with the driver what each line of its standard
// input says, and prints each line with what came of it. Lines are
//
//   [name =] command argument…
//
// where arguments are sizes (4MiB, 4MiB+1), numbers or names given before.

#include "functions.h"
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	char name[32];
	uint64_t value;
} names[256];
static int name_count;

void name_set(const char *name, uint64_t value)
{
	for (int i = 0; i < name_count; i++)
		if (strcmp(names[i].name, name) == 0) {
			names[i].value = value;
			return;
		}
	snprintf(names[name_count].name, sizeof names[0].name, "%s", name);
	names[name_count++].value = value;
}

uint64_t number(const char *text)
{
	for (int i = 0; text != NULL && i < name_count; i++)
		if (strcmp(names[i].name, text) == 0)
			return names[i].value;
	uint64_t sum = 0;
	int sign = 1;
	while (text != NULL && *text) {
		char *end;
		uint64_t n = strtoull(text, &end, 0);
		if (strncmp(end, "KiB", 3) == 0)
			n <<= 10, end += 3;
		else if (strncmp(end, "MiB", 3) == 0)
			n <<= 20, end += 3;
		else if (strncmp(end, "GiB", 3) == 0)
			n <<= 30, end += 3;
		sum = sign > 0 ? sum + n : sum - n;
		if (*end != '+' && *end != '-')
			break;
		sign = *end == '+' ? 1 : -1;
		text = end + 1;
	}
	return sum;
}

const char *size_text(uint64_t n)
{
	static char text[4][32];
	static int i;
	i = (i + 1) % 4;
	if (n % (1 << 20) == 0)
		snprintf(text[i], sizeof text[i], "%lluMiB", (unsigned long long)n >> 20);
	else if (n % 1024 == 0)
		snprintf(text[i], sizeof text[i], "%lluKiB", (unsigned long long)n >> 10);
	else
		snprintf(text[i], sizeof text[i], "%llu", (unsigned long long)n);
	return text[i];
}

static const char *result_text(CUresult r)
{
	static char other[32];
	switch (r) {
	case CUDA_SUCCESS: return "ok";
	case CUDA_ERROR_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
	case CUDA_ERROR_INVALID_VALUE: return "INVALID_VALUE";
	case CUDA_ERROR_INVALID_CONTEXT: return "INVALID_CONTEXT";
	case CUDA_ERROR_INVALID_DEVICE: return "INVALID_DEVICE";
	}
	snprintf(other, sizeof other, "error %d", r);
	return other;
}

// in_child runs the rest of a line in a child of fork.
static void in_child(int argc, char **argv)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct outcome o = {0};
		o.result = run_command(argc, argv, &o);
		printf("  child: %s%s%s\n", result_text(o.result), o.text[0] ? " " : "", o.text);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void run_line(char *line)
{
	char *argv[16], copy[512];
	int argc = 0;
	snprintf(copy, sizeof copy, "%s", line);
	for (char *w = strtok(copy, " "); w != NULL && argc < 16; w = strtok(NULL, " "))
		argv[argc++] = w;
	if (argc == 0 || argv[0][0] == '#')
		return;
	const char *name = NULL;
	int first = 0;
	if (argc > 2 && strcmp(argv[1], "=") == 0)
		name = argv[0], first = 2;
	if (strcmp(argv[first], "fork") == 0) {
		in_child(argc - first - 1, argv + first + 1);
		return;
	}
	struct outcome o = {0};
	o.result = run_command(argc - first, argv + first, &o);
	if (name != NULL && o.result == CUDA_SUCCESS)
		name_set(name, o.value);
	printf("%s: %s%s%s\n", line, result_text(o.result), o.text[0] ? " " : "", o.text);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[512];
	const char *way = argc > 1 ? argv[1] : "link";
	if (resolve_all(way) != 0)
		return 3;
	setvbuf(stdin, NULL, _IONBF, 0); // exec must not lose lines read ahead
	f.cuInit(0);
	if (argc < 3) { // a further argument: no context yet
		CUcontext ctx;
		if (f.cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS)
			printf("no context\n");
		else
			f.cuCtxSetCurrent(ctx);
	}
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		run_line(line);
	}
	return 0;
}
