// Copyright 2026 The Fairslice Authors
// SPDX-License-Identifier: Apache-2.0

// Test code: the driver functions that the probe calls, each reached in the way
// that the test asks for.

#ifndef PROBE_FUNCTIONS_H
#define PROBE_FUNCTIONS_H

#include "cuda_abi.h"
#include "nvml_abi.h"

#define FUNCTIONS(X)                                                                                \
	X(cuInit, (unsigned int))                                                                   \
	X(cuDeviceGetUuid, (CUuuid *, CUdevice))                                                    \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                        \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                 \
	X(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                   \
	X(cuCtxSetCurrent, (CUcontext))                                                             \
	X(cuCtxCreate_v2, (CUcontext *, unsigned int, CUdevice))                                    \
	X(cuCtxDestroy_v2, (CUcontext))                                                             \
	X(cuCtxSetLimit, (int, size_t))                                                             \
	X(cuCtxSynchronize, (void))                                                                 \
	X(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                                    \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                   \
	X(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned int))              \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                                 \
	X(cuMemFree_v2, (CUdeviceptr))                                                              \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                          \
	X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                       \
	X(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))                 \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream))                                                  \
	X(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *))                                \
	X(cuMemPoolDestroy, (CUmemoryPool))                                                         \
	X(cuMemPoolTrimTo, (CUmemoryPool, size_t))                                                  \
	X(cuMemPoolSetAttribute, (CUmemoryPool, int, void *))                                       \
	X(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))                                    \
	X(cuDeviceSetMemPool, (CUdevice, CUmemoryPool))                                             \
	X(cuMemGetMemPool, (CUmemoryPool *, CUmemLocation *, int))                                  \
	X(cuMemPoolImportFromShareableHandle, (CUmemoryPool *, void *, int, unsigned long long))    \
	X(cuMemPoolImportPointer, (CUdeviceptr *, CUmemoryPool, void *))                            \
	X(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)) \
	X(cuMemRelease, (CUmemGenericAllocationHandle))                                             \
	X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))    \
	X(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
	X(cuMemUnmap, (CUdeviceptr, size_t))                                                        \
	X(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *, void *))                    \
	X(cuMemExportToShareableHandle, (void *, CUmemGenericAllocationHandle, int, unsigned long long)) \
	X(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *, void *, int))            \
	X(cuMulticastCreate, (CUmemGenericAllocationHandle *, const CUmulticastObjectProp *))       \
	X(cuMulticastBindMem, (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t, unsigned long long)) \
	X(cuMulticastBindAddr, (CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long)) \
	X(cuMulticastUnbind, (CUmemGenericAllocationHandle, CUdevice, size_t, size_t))              \
	X(cuMemMapArrayAsync, (CUarrayMapInfo *, unsigned int, CUstream))                           \
	X(cuArrayCreate_v2, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *))                             \
	X(cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *))                         \
	X(cuMipmappedArrayCreate, (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int)) \
	X(cuArrayDestroy, (CUarray))                                                                \
	X(cuMipmappedArrayDestroy, (CUmipmappedArray))                                              \
	X(cuGraphCreate, (CUgraph *, unsigned int))                                                 \
	X(cuGraphAddMemAllocNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *)) \
	X(cuGraphAddMemFreeNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr)) \
	X(cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)) \
	X(cuGraphAddNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, CUgraphNodeParams *)) \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                \
	X(cuGraphInstantiateWithParams, (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *))            \
	X(cuGraphUpload, (CUgraphExec, CUstream))                                                   \
	X(cuGraphLaunch, (CUgraphExec, CUstream))                                                   \
	X(cuGraphExecDestroy, (CUgraphExec))                                                        \
	X(cuDeviceGraphMemTrim, (CUdevice))                                                         \
	X(cuStreamCreate, (CUstream *, unsigned int))                                               \
	X(cuStreamSynchronize, (CUstream))                                                          \
	X(cuStreamBeginCapture_v2, (CUstream, int))                                                 \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                                \
	X(cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr))                                       \
	X(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned int))                     \
	X(cuIpcCloseMemHandle, (CUdeviceptr))                                                       \
	X(cuModuleLoadData, (CUmodule *, const void *))                                             \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                              \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **, void **)) \
	X(cuLaunchCooperativeKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, CUstream, void **)) \
	X(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **))                 \
	X(cuLaunchGridAsync, (CUfunction, int, int, CUstream))                                      \
	OTHER_FORMS(X)

// Forms of API 2.0, and of other CUDA versions.
#define OTHER_FORMS(X)                                                                              \
	X(cuMemAlloc, (CUdeviceptr_v1 *, unsigned int))                                             \
	X(cuMemFree, (CUdeviceptr_v1))                                                              \
	X(cuMemAllocPitch, (CUdeviceptr_v1 *, unsigned int *, unsigned int, unsigned int, unsigned int)) \
	X(cuMemGetInfo, (unsigned int *, unsigned int *))                                           \
	X(cuDeviceTotalMem, (unsigned int *, CUdevice))                                             \
	X(cuArrayCreate, (CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *))                             \
	X(cuArray3DCreate, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *))                         \
	X(cuMemGetDefaultMemPool, (CUmemoryPool *, CUmemLocation *, int))                           \
	X(cuDeviceGetMemPool, (CUmemoryPool *, CUdevice))                                           \
	X(cuMulticastBindMem_v2, (CUmemGenericAllocationHandle, CUdevice, size_t, CUmemGenericAllocationHandle, size_t, size_t, unsigned long long)) \
	X(cuMulticastBindAddr_v2, (CUmemGenericAllocationHandle, CUdevice, size_t, CUdeviceptr, size_t, unsigned long long)) \
	X(cuGraphAddNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *)) \
	X(cuGraphAddNode_v3, (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, CUgraphNodeParams *)) \
	X(cuGraphInstantiate, (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t))              \
	X(cuGraphInstantiate_v2, (CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t))           \
	X(cuCtxCreate, (CUcontext *, unsigned int, CUdevice))                                       \
	X(cuCtxCreate_v3, (CUcontext *, void *, int, unsigned int, CUdevice))                       \
	X(cuCtxCreate_v4, (CUcontext *, void *, unsigned int, CUdevice))                            \
	X(cuCtxDestroy, (CUcontext))                                                                \
	X(cuDevicePrimaryCtxRelease, (CUdevice))                                                    \
	X(cuDevicePrimaryCtxReset, (CUdevice))

// Linked only.
CUresult cuGetExportTable(const void **, const CUuuid *);
CUresult cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int, nvmlDevice_t *);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t *);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, nvmlMemory_v2_t *);
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t, nvmlBAR1Memory_t *);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v1_t *);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *);
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t, nvmlProcessDetailList_t *);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned int *, unsigned long long);

#define DECLARE(name, args)          \
	CUresult name args;          \
	typedef CUresult(*name##_fn) args;
FUNCTIONS(DECLARE)
#undef DECLARE

struct functions {
#define MEMBER(name, args) name##_fn name;
	FUNCTIONS(MEMBER)
#undef MEMBER
};
extern struct functions f;

// resolve_all fills f: way is link, dlsym, dlvsym, next, proc, proc-old,
// proc-ptsz, deepbind or deepbind-dlsym.
int resolve_all(const char *way);
const char *address_text(const char *base, int for_version, uint64_t with_flags);
const char *symbol_text(const char *name);

#endif
