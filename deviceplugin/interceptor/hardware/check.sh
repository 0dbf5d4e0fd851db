#!/usr/bin/env bash
# Copyright 2026 The Fairslice Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the interceptor on a real GPU: what the driver does that the interceptor takes
# for granted, what is refused and what it costs for a plain driver program, whether a
# share of compute time is kept, and PyTorch (three allocators) and CuPy.
# What is not installed is named and left out; the exit status is that of the parts
# that ran. Needs gcc, make and the NVIDIA driver.
#
#   hardware/check.sh [MIB]        limit in MiB, default 2048
#
# CUDA_LIBRARY names another libcuda.so.1 than the dynamic linker's.

set -u
limit=${1:-2048}
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
make -s -C "$here" OUT="$work" library || exit 1
preload="$work/libfairslice.so"

driver=${CUDA_LIBRARY:-$(ldconfig -p | awk '/libcuda.so.1 /{print $NF; exit}')}
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

for program in plain questions busy; do
	gcc -O1 -Wall -I"$here/src" -o "$work/$program" "$here/hardware/$program.c" "$driver" || exit 1
done

# ---- the driver and a plain program
part "what the driver does" "$work/questions"
part "plain program, alone" "$work/plain"
part "plain program, limited" limited "$work/plain" "$limit"

# ---- compute share: FAIRSLICE_GPU_MILLI, by the number of kernels done in 4 seconds
share() {
	local alone whole quarter
	alone=$("$work/busy") && whole=$(FAIRSLICE_GPU_MILLI=1000 limited "$work/busy") && quarter=$(FAIRSLICE_GPU_MILLI=250 limited "$work/busy") || return 1
	echo "kernels of 1 ms in 4 s: $alone alone, $whole with a share of 1000, $quarter with a share of 250 ($((100 * quarter / alone)) %)"
	[ $((100 * whole)) -ge $((75 * alone)) ] && [ $((100 * quarter)) -le $((33 * alone)) ] && [ $((100 * quarter)) -ge $((15 * alone)) ]
}
part "compute share" share

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
except torch.cuda.OutOfMemoryError as e:
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
if python3 -c 'import torch' 2>/dev/null; then
	part "PyTorch, caching allocator" limited torch
	PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True part "PyTorch, expandable segments" limited torch
	PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync part "PyTorch, cudaMallocAsync" limited torch
else
	echo "== PyTorch is not installed: left out"
fi
if python3 -c 'import cupy' 2>/dev/null; then
	part "CuPy" limited cupy
else
	echo "== CuPy is not installed: left out"
fi
command -v nvidia-smi >/dev/null && part "nvidia-smi, limited" limited nvidia-smi --query-gpu=memory.total,memory.used,memory.free --format=csv
exit $failed
