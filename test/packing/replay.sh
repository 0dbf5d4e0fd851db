#!/usr/bin/env bash
# Copyright 2026 The Fairslice Authors
# SPDX-License-Identifier: Apache-2.0
#
# Replays every task list (openb_pod_list_*.csv) in $FAIRSLICE_TRACE_DIR on the
# trace's GPU nodes and prints the medians. Arguments go to simulate, such as
# --policy fgd or --consolidate.
set -euo pipefail

: "${FAIRSLICE_TRACE_DIR:?names the folder with the openb_*.csv files of the trace}"
cd "$(dirname "$0")/../.."
binary=$(mktemp -d)/fairslice
trap 'rm -rf "$(dirname "$binary")"' EXIT
shopt -s nullglob
lists=("$FAIRSLICE_TRACE_DIR"/openb_pod_list_*.csv)
if [ ${#lists[@]} -eq 0 ]; then
  echo "no openb_pod_list_*.csv in $FAIRSLICE_TRACE_DIR" >&2
  exit 1
fi
go build -o "$binary" ./cmd/fairslice

for tasks in "${lists[@]}"; do
  name=$(basename "$tasks" .csv)
  echo "${name#openb_pod_list_}"
  "$binary" simulate --trace "$FAIRSLICE_TRACE_DIR/openb_node_list_gpu_node.csv" "$tasks" "$@" | tail -n +2
done
