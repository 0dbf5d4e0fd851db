#!/bin/sh
# Copyright 2026 The Fairslice Authors
# SPDX-License-Identifier: Apache-2.0
#
# Test code: a stand-in for nvidia-cuda-mps-control that keeps what it is told in
# files. With -f it is the daemon, without it the client of one.
pipe=$CUDA_MPS_PIPE_DIRECTORY
if [ "$1" = -f ]; then
  echo $$ >"$pipe/pid"
  exec sleep 600
fi
kill -0 "$(cat "$pipe/pid" 2>/dev/null)" 2>/dev/null || { echo "Cannot find MPS control daemon process"; exit 1; }
read -r command first second
case $command in
set_default_device_pinned_mem_limit) echo "$second" >"$pipe/memory" ;;
set_default_active_thread_percentage) echo "$first" >"$pipe/percent" ;;
get_default_device_pinned_mem_limit) cat "$pipe/memory" ;;
get_default_active_thread_percentage) cat "$pipe/percent" ;;
quit) kill "$(cat "$pipe/pid")" ;;
esac
