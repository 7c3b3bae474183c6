#!/usr/bin/env bash
# What one GPU can tell, in two parts of nine minutes each: cost (of conversion) and more (no network, compilation).
#
#   bash bench/throughput/plan_one_gpu.sh FOLDER cost|more [more options of run.py]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 part=$2
shift 2
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}" PYTHONUNBUFFERED=1
"${PYTHON:-python3}" "$here/run.py" --plan "$here/plans/one_gpu_$part.txt" --seconds "${SECONDS_LIMIT:-480}" --each 100 \
  --out "$folder/one_gpu_$part.jsonl" "$@" | tee "$folder/one_gpu_$part.txt"
