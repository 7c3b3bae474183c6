#!/usr/bin/env bash
# Converts a plain script, runs the original on one process and the converted one on two, and compares what they print.
set -euo pipefail
cd "$(dirname "$0")/.."
work=build/demo
rm -rf "$work"
mkdir -p "$work"
cp fixtures/functions/train.py "$work/train.py"
cd "$work"

echo "== distify rewrite train.py --diff"
distify rewrite train.py --diff
distify rewrite train.py -o distributed.py --quiet

echo
echo "== python train.py"
python train.py | tee one.txt
echo
echo "== torchrun --nproc-per-node 2 distributed.py"
torchrun --nproc-per-node 2 distributed.py 2>torchrun.log | tee two.txt || { cat torchrun.log >&2; exit 1; }

echo
if diff one.txt two.txt >/dev/null; then
    echo "The two runs print the same."
else
    echo "The two runs differ:"
    diff one.txt two.txt
fi
