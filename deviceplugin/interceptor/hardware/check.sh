#!/usr/bin/env bash
# Copyright 2026 The Fairslice Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the interceptor on a real GPU and prints what was refused and what it costs:
# a plain driver program, PyTorch (caching allocator and expandable segments), CuPy.
# What is not installed is named and left out; the exit status is that of the parts
# that ran. Needs gcc, make and the NVIDIA driver.
#
#   hardware/check.sh [MIB]        limit in MiB, default 2048

set -u
limit=${1:-2048}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
make -s -C "$here" OUT="$work" library || exit 1
preload="$work/libfairslice.so"

driver=$(ldconfig -p | awk '/libcuda.so.1 /{print $NF; exit}')
[ -n "$driver" ] || { echo "no libcuda.so.1 on this machine"; exit 1; }
echo "driver: $driver, limit: $limit MiB"
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

limited() { LD_PRELOAD=$preload FAIRSLICE_GPU_MEMORY_MIB=$limit "$@"; }

part() { # name, then the command
	local name=$1
	shift
	echo "== $name"
	"$@" || { echo "FAILED: $name"; failed=1; }
}

# ---- plain driver program
cat >"$work/plain.c" <<'C'
#include "cuda_abi.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
CUresult cuInit(unsigned int);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}
int main(int argc, char **argv)
{
	size_t limit = argc > 1 ? strtoull(argv[1], 0, 10) << 20 : 0, free_, total, got = 0;
	CUcontext ctx;
	CUdeviceptr p, all[4096];
	int n = 0;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
		return printf("no context\n"), 1;
	cuMemGetInfo_v2(&free_, &total);
	printf("free %zu MiB of %zu MiB\n", free_ >> 20, total >> 20);
	double best = 1e18;
	for (int r = 0; r < 50; r++) {
		double start = now();
		for (int i = 0; i < 200; i++)
			if (cuMemAlloc_v2(&p, 4 << 20) == 0)
				cuMemFree_v2(p);
		double each = (now() - start) / 200;
		best = each < best ? each : best;
	}
	printf("cuMemAlloc+cuMemFree of 4 MiB: %.0f ns\n", best);
	if (limit == 0)
		return 0;
	while (n < 4096 && cuMemAlloc_v2(&all[n], 16 << 20) == 0)
		n++, got += 16 << 20;
	printf("granted %zu MiB in steps of 16\n", got >> 20);
	while (n > 0)
		cuMemFree_v2(all[--n]);
	return got > limit || got + (32u << 20) < limit;
}
C
gcc -I"$here/src" -o "$work/plain" "$work/plain.c" "$driver" || exit 1
part "plain program, alone" "$work/plain"
part "plain program, limited" limited "$work/plain" "$limit"

# ---- frameworks
torch() {
	python3 - "$limit" <<'PY'
import sys, torch
limit = int(sys.argv[1]) << 20
free, total = torch.cuda.mem_get_info()
print(f"torch {torch.__version__}: free {free >> 20} MiB of {total >> 20} MiB")
held, step = [], 64 << 20
try:
    while sum(t.numel() for t in held) <= 2 * limit:
        held.append(torch.empty(step, dtype=torch.uint8, device="cuda"))
    print("was never refused"); sys.exit(1)
except torch.OutOfMemoryError as e:
    print(f"refused after {len(held) * 64} MiB: {str(e)[:120]}")
over = len(held) * step > limit
held.clear(); torch.cuda.empty_cache()
a = torch.randn(1024, 1024, device="cuda"); b = a @ a; torch.cuda.synchronize()
print("works after the refusal:", bool(torch.isfinite(b).all()))
sys.exit(over)
PY
}
cupy() {
	python3 - "$limit" <<'PY'
import sys, cupy
limit = int(sys.argv[1]) << 20
free, total = cupy.cuda.runtime.memGetInfo()
print(f"cupy {cupy.__version__}: free {free >> 20} MiB of {total >> 20} MiB")
held, step = [], 64 << 20
try:
    while len(held) * step <= 2 * limit:
        held.append(cupy.empty(step, dtype=cupy.uint8))
    print("was never refused"); sys.exit(1)
except cupy.cuda.memory.OutOfMemoryError as e:
    print(f"refused after {len(held) * 64} MiB: {str(e)[:120]}")
sys.exit(len(held) * step > limit)
PY
}
run_limited() { LD_PRELOAD=$preload FAIRSLICE_GPU_MEMORY_MIB=$limit; export LD_PRELOAD FAIRSLICE_GPU_MEMORY_MIB; "$@"; }
if python3 -c 'import torch' 2>/dev/null; then
	part "PyTorch, caching allocator" eval '(run_limited torch)'
	part "PyTorch, expandable segments" eval '(export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; run_limited torch)'
	part "PyTorch, cudaMallocAsync" eval '(export PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync; run_limited torch)'
else
	echo "== PyTorch is not installed: left out"
fi
if python3 -c 'import cupy' 2>/dev/null; then
	part "CuPy" eval '(run_limited cupy)'
else
	echo "== CuPy is not installed: left out"
fi
command -v nvidia-smi >/dev/null && part "nvidia-smi, limited" limited nvidia-smi --query-gpu=memory.total,memory.used,memory.free --format=csv
exit $failed
