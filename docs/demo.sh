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

python - <<'END'
import re
import sys

NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
one, two = (open(name).read() for name in ("one.txt", "two.txt"))
pairs = list(zip(map(float, NUMBER.findall(one)), map(float, NUMBER.findall(two))))
worst = max(abs(a - b) for a, b in pairs)
if NUMBER.sub("#", one) != NUMBER.sub("#", two) or worst > 1e-4:
    sys.exit("\nThe two runs differ; please report it.")
print(f"\nThe same, number by number: {len(pairs)} numbers, largest difference {worst:.1g}, rounding of the last digit.")
END
