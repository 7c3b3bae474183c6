#!/usr/bin/env bash
# A plan of plans/ in about nine minutes: rows in FOLDER/PLAN.jsonl, words in FOLDER/PLAN.txt.
#
#   bash bench/throughput/plan.sh one_gpu_cost|one_gpu_small|one_gpu_more|one_gpu_compiled|two_gpus_124m|two_gpus_more FOLDER [more options of run.py]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
plan=$1 folder=$2
shift 2
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-4}" PYTHONUNBUFFERED=1
"${PYTHON:-python3}" "$here/run.py" --plan "$here/plans/$plan.txt" --seconds "${SECONDS_LIMIT:-480}" --each 100 \
  --out "$folder/$plan.jsonl" "$@" | tee "$folder/$plan.txt"
