#!/usr/bin/env bash
# What two GPUs tell, in two parts of nine minutes each: 124m (all backends and rivals) and more (774M, other models).
#
#   bash bench/throughput/plan_two_gpus.sh FOLDER 124m|more [more options of run.py]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 part=$2
shift 2
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}" PYTHONUNBUFFERED=1
"${PYTHON:-python3}" "$here/run.py" --plan "$here/plans/two_gpus_$part.txt" --seconds "${SECONDS_LIMIT:-480}" --each 100 \
  --out "$folder/two_gpus_$part.jsonl" "$@" | tee "$folder/two_gpus_$part.txt"
