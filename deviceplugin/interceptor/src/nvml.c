// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// NVML tells the same story as the driver: the limit as total, the container's
// use as used, its own processes (by the PIDs that it can see) and no others.

#include "internal.h"

#define MAX_HANDLES 64

static struct {
	nvmlDevice_t handle;
	int dev;
} handles[MAX_HANDLES];
static int handle_count;
static struct fs_lock handle_lock;

void fs_nvml_forked(void) { handle_lock.word = 0; }

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// parse_uuid reads GPU-xxxxxxxx-xxxx-… and MIG-xxxxxxxx-xxxx-….
static bool parse_uuid(const char *text, uint8_t out[16])
{
	int n = 0;
	if ((text[0] | 0x20) < 'a' || text[3] != '-')
		return false;
	for (const char *p = text + 4; *p && n < 32; p++) {
		if (*p == '-')
			continue;
		int v = hex(*p);
		if (v < 0)
			return false;
		out[n / 2] = (uint8_t)(n % 2 ? out[n / 2] | v : v << 4);
		n++;
	}
	return n == 32;
}

static int ask(nvmlDevice_t device)
{
	char text[96] = "";
	uint8_t uuid[16];
	unsigned int index = 0;
	nvmlReturn_t (*get)(nvmlDevice_t, char *, unsigned int) = (nvmlReturn_t(*)(nvmlDevice_t, char *, unsigned int))fs_real[FS_nvmlDeviceGetUUID];
	nvmlReturn_t (*get_index)(nvmlDevice_t, unsigned int *) = (nvmlReturn_t(*)(nvmlDevice_t, unsigned int *))fs_real[FS_nvmlDeviceGetIndex];
	if (get == NULL || get(device, text, sizeof text) != NVML_SUCCESS || !parse_uuid(text, uuid))
		return FS_DEV_NONE;
	if (get_index == NULL || get_index(device, &index) != NVML_SUCCESS)
		index = FS_MAX_DEVICES;
	int dev = fs_device_by_uuid(uuid, (int)index);
	return dev < 0 ? FS_DEV_NONE : dev;
}

static int device_of(nvmlDevice_t device)
{
	fs_lock(&handle_lock);
	int dev = FS_DEV_NONE, i = 0;
	while (i < handle_count && handles[i].handle != device)
		i++;
	if (i < handle_count)
		dev = handles[i].dev;
	fs_unlock(&handle_lock);
	if (i < handle_count)
		return dev;
	dev = ask(device);
	fs_lock(&handle_lock);
	if (dev >= 0 && handle_count < MAX_HANDLES) {
		handles[handle_count].handle = device;
		handles[handle_count++].dev = dev;
	}
	fs_unlock(&handle_lock);
	return dev;
}

#define NVML_ENTER(sym, args)                                                                          \
	enum fs_mode mode_ = fs_mode_now();                                                            \
	if ((!fs_resolved(FS_LIBNVML) && !fs_resolve(FS_LIBNVML)) || fs_real[FS_##sym] == NULL)        \
		return NVML_ERROR_FUNCTION_NOT_FOUND;                                                  \
	__typeof__(&sym) real = (__typeof__(&sym))fs_real[FS_##sym];                                   \
	if (unlikely(mode_ == FS_OFF))                                                                 \
		return real args

// Passed on; hooked so that their real addresses are at hand.
FS_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	NVML_ENTER(nvmlDeviceGetUUID, (device, uuid, length));
	return real(device, uuid, length);
}

FS_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	NVML_ENTER(nvmlDeviceGetIndex, (device, index));
	return real(device, index);
}

// fit returns false where the device has no memory limit.
static bool fit(int dev, unsigned long long *total, unsigned long long *free, unsigned long long *used)
{
	if (dev < 0 || fs_limit_of(dev) == FS_UNLIMITED)
		return false;
	if (atomic_load(&fs_pools_active))
		fs_pools_settle();
	uint64_t limit = fs_limit_of(dev), in_use = fs_used_by_container(dev);
	uint64_t left = fs_sub(limit, in_use);
	*total = limit < *total ? limit : *total;
	*free = left < *free ? left : *free;
	*used = fs_sub(*total, *free);
	return true;
}

FS_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	NVML_ENTER(nvmlDeviceGetMemoryInfo, (device, memory));
	nvmlReturn_t r = real(device, memory);
	if (r == NVML_SUCCESS && memory)
		fit(device_of(device), &memory->total, &memory->free, &memory->used);
	return r;
}

FS_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	NVML_ENTER(nvmlDeviceGetMemoryInfo_v2, (device, memory));
	nvmlReturn_t r = real(device, memory);
	// What the driver reserves lies outside the budget.
	if (r == NVML_SUCCESS && memory && fit(device_of(device), &memory->total, &memory->free, &memory->used))
		memory->reserved = 0;
	return r;
}

FS_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1)
{
	NVML_ENTER(nvmlDeviceGetBAR1MemoryInfo, (device, bar1));
	nvmlReturn_t r = real(device, bar1);
	if (r == NVML_SUCCESS && bar1)
		fit(device_of(device), &bar1->bar1Total, &bar1->bar1Free, &bar1->bar1Used);
	return r;
}

// list writes the container's processes; sizes of the struct differ by version.
static nvmlReturn_t list(int dev, unsigned int *count, void *infos, bool v1)
{
	uint32_t pids[FS_MAX_SLOTS];
	uint64_t bytes[FS_MAX_SLOTS];
	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	unsigned int n = (unsigned int)fs_processes(dev, pids, bytes, FS_MAX_SLOTS), room = *count;
	*count = n;
	if (n == 0)
		return NVML_SUCCESS;
	if (room < n || infos == NULL)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < n; i++) {
		if (v1)
			((nvmlProcessInfo_v1_t *)infos)[i] = (nvmlProcessInfo_v1_t){pids[i], bytes[i]};
		else
			((nvmlProcessInfo_v2_t *)infos)[i] = (nvmlProcessInfo_v2_t){pids[i], bytes[i], UINT32_MAX, UINT32_MAX};
	}
	return NVML_SUCCESS;
}

// The container's processes are shown as compute processes, once; the lists of
// graphics and MPS processes would name others'.
#define PROCESS_LIST(sym, type, v1, compute)                                             \
	FS_EXPORT nvmlReturn_t sym(nvmlDevice_t device, unsigned int *count, type *infos) \
	{                                                                                \
		NVML_ENTER(sym, (device, count, infos));                                 \
		int dev = device_of(device);                                             \
		if (dev < 0)                                                             \
			return real(device, count, infos);                               \
		if (compute)                                                             \
			return list(dev, count, infos, v1);                              \
		if (count == NULL)                                                       \
			return NVML_ERROR_INVALID_ARGUMENT;                              \
		*count = 0;                                                              \
		return NVML_SUCCESS;                                                     \
	}
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, true, true)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, false, true)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_v2_t, false, true)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, true, false)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, false, false)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t, false, false)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, true, false)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, false, false)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t, false, false)

FS_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *plist)
{
	NVML_ENTER(nvmlDeviceGetRunningProcessDetailList, (device, plist));
	int dev = device_of(device);
	if (dev < 0 || plist == NULL)
		return real(device, plist);
	nvmlProcessInfo_v2_t found[FS_MAX_SLOTS];
	unsigned int n = FS_MAX_SLOTS, room = plist->numProcArrayEntries;
	list(dev, &n, found, false);
	plist->numProcArrayEntries = n;
	if (n > 0 && (room < n || plist->procArray == NULL))
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < n; i++)
		plist->procArray[i] = (nvmlProcessDetail_v1_t){found[i].pid, found[i].usedGpuMemory, UINT32_MAX, UINT32_MAX, 0};
	return NVML_SUCCESS;
}

static bool is_ours(int dev, unsigned int pid)
{
	uint32_t pids[FS_MAX_SLOTS];
	uint64_t bytes[FS_MAX_SLOTS];
	for (int i = 0, n = fs_processes(dev, pids, bytes, FS_MAX_SLOTS); i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

// Utilisation samples carry the PIDs of NVML's own namespace: those that are not
// this container's are left out. None left reads as an idle device.
FS_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned int *count, unsigned long long since)
{
	NVML_ENTER(nvmlDeviceGetProcessUtilization, (device, samples, count, since));
	int dev = device_of(device);
	nvmlReturn_t r = real(device, samples, count, since);
	if (dev < 0 || r != NVML_SUCCESS || samples == NULL || count == NULL)
		return r;
	unsigned int kept = 0;
	for (unsigned int i = 0; i < *count; i++)
		if (is_ours(dev, samples[i].pid))
			samples[kept++] = samples[i];
	*count = kept;
	return kept ? r : NVML_ERROR_NOT_FOUND;
}

FS_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
	NVML_ENTER(nvmlDeviceGetProcessesUtilizationInfo, (device, info));
	int dev = device_of(device);
	nvmlReturn_t r = real(device, info);
	if (dev < 0 || r != NVML_SUCCESS || info == NULL || info->procUtilArray == NULL)
		return r;
	unsigned int kept = 0;
	for (unsigned int i = 0; i < info->processSamplesCount; i++)
		if (is_ours(dev, info->procUtilArray[i].pid))
			info->procUtilArray[kept++] = info->procUtilArray[i];
	info->processSamplesCount = kept;
	return kept ? r : NVML_ERROR_NOT_FOUND;
}
