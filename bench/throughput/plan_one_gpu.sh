#!/usr/bin/env bash
# What one GPU can tell, in nine minutes: rows in FOLDER/one_gpu.jsonl, words in FOLDER/one_gpu.txt.
#
#   bash bench/throughput/plan_one_gpu.sh FOLDER [more options of run.py]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}" PYTHONUNBUFFERED=1
"${PYTHON:-python3}" "$here/run.py" --plan "$here/plans/one_gpu.txt" --seconds "${SECONDS_LIMIT:-490}" --each 120 \
  --out "$folder/one_gpu.jsonl" "$@" | tee "$folder/one_gpu.txt"
