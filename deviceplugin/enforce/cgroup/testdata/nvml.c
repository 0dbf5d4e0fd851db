// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: a stand-in libnvidia-ml.so.1 of R615. Limits are files of the control
// group's directory, one per GPU, so that a test sees what was set; the directory
// must exist, as for the driver. Built with OLD it has no limits, as before R615.
//
//   STANDIN_RESULT   code that setting a limit returns (default 0)
//   STANDIN_FORGET   1: a limit is accepted and not kept
//   STANDIN_UUIDS    further GPUs, separated by commas

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6 };
static const char *const uuids[] = {"GPU-fef8089b-4820-abfc-e83e-94318197576e", "GPU-11111111-4820-abfc-e83e-94318197576e"};
static int up;

int nvmlInit_v2(void) { up++; return SUCCESS; }
int nvmlShutdown(void) { up--; return SUCCESS; }
const char *nvmlErrorString(int code) { return code == UNSUPPORTED ? "Not Supported" : code == NO_PERMISSION ? "Insufficient Permissions" : "Not Found"; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	for (int i = 0; i < 2; i++)
		if (strcmp(uuids[i], uuid) == 0) {
			*device = (void *)uuids[i];
			return up > 0 ? SUCCESS : INVALID;
		}
	const char *more = getenv("STANDIN_UUIDS");
	if (more == NULL || strstr(more, uuid) == NULL)
		return NOT_FOUND;
	*device = strdup(uuid); // as long as the process, as a device is
	return up > 0 ? SUCCESS : INVALID;
}

#ifndef OLD
struct set { const char *name; unsigned long long soft, hard; };
struct get { const char *name; unsigned long long soft, hard, used; };

static FILE *limits(const char *group, const void *device, const char *mode)
{
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/limit.%s", group, (const char *)device);
	return fopen(path, mode);
}
int nvmlDeviceSetMemoryLimits_v1(void *device, struct set *s)
{
	const char *result = getenv("STANDIN_RESULT"), *forget = getenv("STANDIN_FORGET");
	if (result != NULL)
		return atoi(result);
	if (forget != NULL)
		return SUCCESS;
	FILE *f = limits(s->name, device, "we");
	if (f == NULL)
		return NOT_FOUND;
	fprintf(f, "%llu %llu", s->soft, s->hard);
	fclose(f);
	return SUCCESS;
}
int nvmlDeviceGetMemoryLimits_v1(void *device, struct get *g)
{
	FILE *f = limits(g->name, device, "re");
	g->soft = 0, g->hard = ULLONG_MAX, g->used = 4096;
	if (f == NULL)
		return SUCCESS;
	int n = fscanf(f, "%llu %llu", &g->soft, &g->hard);
	fclose(f);
	return n == 2 ? SUCCESS : INVALID;
}
#endif
