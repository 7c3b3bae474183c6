#!/usr/bin/env bash
# Memory of two processes in nine minutes: peaks beside hand-written loops, then the largest model that trains in 4 GiB.
# On one GPU, which both share, with --share.
#
#   bash bench/throughput/plan_memory.sh FOLDER [--share]
set -euo pipefail
bench=$(cd "$(dirname "$0")/.." && pwd)
folder=$1
shift
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}" PYTHONUNBUFFERED=1
memory() { "${PYTHON:-python3}" "$bench/memory.py" "$@"; }
largest=hand-fsdp2+recompute,ours-fsdp+recompute,hand-fsdp2+meta+recompute+offload,ours-fsdp+meta+recompute+offload
{
  memory peaks --seconds 200 --each 60 --out "$folder/memory_peaks.jsonl" "$@"
  memory largest --seconds 290 --each 60 --cap 4 --width 1024 --first 16 --most 64 --contenders "$largest" \
    --out "$folder/memory_largest.jsonl" "$@"
} | tee "$folder/memory.txt"
