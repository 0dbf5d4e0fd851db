// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: the stand-in libnvidia-ml.so.1.

#include "machine.h"
#include "nvml_abi.h"

#include <stdio.h>
#include <string.h>

#define API __attribute__((visibility("default")))

static int index_of(nvmlDevice_t d) { return (int)((intptr_t)d - 1); }
static bool good(nvmlDevice_t d) { return index_of(d) >= 0 && index_of(d) < machine_gpus(); }

API nvmlReturn_t nvmlInit_v2(void) { return NVML_SUCCESS; }
API nvmlReturn_t nvmlInit(void) { return NVML_SUCCESS; }
API nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
API const char *nvmlErrorString(nvmlReturn_t r) { return r == NVML_SUCCESS ? "Success" : "Error"; }
API nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int n)
{
	snprintf(out, n, "615.00-standin");
	return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = (unsigned int)machine_gpus();
	return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d)
{
	if ((int)i >= machine_gpus())
		return NVML_ERROR_INVALID_ARGUMENT;
	*d = (nvmlDevice_t)(intptr_t)(i + 1);
	return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned int *i)
{
	*i = (unsigned int)index_of(d);
	return good(d) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned int n)
{
	char text[48];
	if (!good(d) || out == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	machine_uuid_text(machine_gpu(index_of(d)).uuid, text);
	snprintf(out, n, "%s", text);
	return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned int n)
{
	if (!good(d))
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(out, n, "Stand-in GPU %d", index_of(d));
	return NVML_SUCCESS;
}

#define RESERVED (16ull << 20)

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out)
{
	if (!good(d) || out == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	struct gpu g = machine_gpu(index_of(d));
	*out = (nvmlMemory_t){g.size + RESERVED, g.size - g.used, g.used + RESERVED};
	return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *out)
{
	if (!good(d) || out == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	struct gpu g = machine_gpu(index_of(d));
	*out = (nvmlMemory_v2_t){out->version, g.size + RESERVED, RESERVED, g.size - g.used, g.used};
	return NVML_SUCCESS;
}
API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *out)
{
	struct gpu g = machine_gpu(index_of(d));
	*out = (nvmlBAR1Memory_t){g.size * 2, g.size * 2 - RESERVED, RESERVED};
	return NVML_SUCCESS;
}

#define LIST(sym, type, entry)                                                    \
	API nvmlReturn_t sym(nvmlDevice_t d, unsigned int *count, type *out)      \
	{                                                                         \
		struct proc p[MAX_PROCS];                                         \
		if (!good(d) || count == NULL)                                    \
			return NVML_ERROR_INVALID_ARGUMENT;                       \
		unsigned int n = (unsigned int)machine_procs(index_of(d), p, MAX_PROCS), room = *count; \
		int g = machine_index(index_of(d));                               \
		(void)g;                                                          \
		*count = n;                                                       \
		if (n > room || (n > 0 && out == NULL))                           \
			return NVML_ERROR_INSUFFICIENT_SIZE;                      \
		for (unsigned int i = 0; i < n; i++)                              \
			out[i] = (type)entry;                                     \
		return NVML_SUCCESS;                                              \
	}
#define ENTRY1 {p[i].pid, p[i].used[g]}
#define ENTRY2 {p[i].pid, p[i].used[g], UINT32_MAX, UINT32_MAX}
LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, ENTRY1)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, ENTRY2)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_v2_t, ENTRY2)
// These show every process too, so that a test sees what is held back.
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, ENTRY1)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, ENTRY2)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t, ENTRY2)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, ENTRY1)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, ENTRY2)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t, ENTRY2)

API nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t d, nvmlProcessDetailList_t *l)
{
	struct proc p[MAX_PROCS];
	unsigned int n = (unsigned int)machine_procs(index_of(d), p, MAX_PROCS), room = l->numProcArrayEntries;
	l->numProcArrayEntries = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < n; i++)
		l->procArray[i] = (nvmlProcessDetail_v1_t){p[i].pid, p[i].used[machine_index(index_of(d))], UINT32_MAX, UINT32_MAX, 0};
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *s, unsigned int *count, unsigned long long since)
{
	struct proc p[MAX_PROCS];
	(void)since;
	unsigned int n = (unsigned int)machine_procs(index_of(d), p, MAX_PROCS), room = *count;
	*count = n;
	if (n == 0)
		return NVML_ERROR_NOT_FOUND;
	if (n > room || s == NULL)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < n; i++)
		s[i] = (nvmlProcessUtilizationSample_t){.pid = p[i].pid, .timeStamp = machine_now() / 1000, .smUtil = 50};
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t d, nvmlProcessesUtilizationInfo_t *u)
{
	struct proc p[MAX_PROCS];
	unsigned int n = (unsigned int)machine_procs(index_of(d), p, MAX_PROCS), room = u->processSamplesCount;
	u->processSamplesCount = n;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < n; i++)
		u->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){.pid = p[i].pid, .timeStamp = machine_now() / 1000, .smUtil = 50};
	return NVML_SUCCESS;
}
