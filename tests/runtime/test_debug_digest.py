"""What decides the course of a run is compared: after each step under DISTIFY_DEBUG=1, at the end of a pass otherwise."""

from __future__ import annotations

import re
from pathlib import Path

from tests.runtime.forked import Forks

SCRIPT = """
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from distify import runtime

case = sys.argv[1]


class Data(Dataset):
    def __len__(self):
        return 41

    def __getitem__(self, k):
        return torch.arange(6.0).add(k).sin() + 0.01 * torch.randn(6) + 0.01 * random.random(), k % 2


def main():
    runtime.init()
    second = runtime.rank() == 1
    torch.manual_seed(0)
    workers = 1 if case == "workers" else 0
    loader = runtime.shard(DataLoader(Data(), batch_size=8, shuffle=True, num_workers=workers))
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    runtime.prepare(model, optimizer)
    patience = 3 + second
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):
            now = epoch == 0 and step == 2
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            if case != "loss" or not now:
                loss = runtime.mean(loss)
            else:
                loss = loss + second
            runtime.backward(loss)
            if case == "tracker" and not second:
                random.random()
            if case in ("weights", "more weights") and now and second:
                with torch.no_grad():
                    model[0].weight[0, 0] += 1e-3 if case == "weights" else 0.5
            if case == "rate" and now and second:
                optimizer.param_groups[0]["lr"] *= 0.1
            if case == "mode" and now and second:
                model[2].eval()
            if case == "stream" and now and second:
                torch.rand(1)
            runtime.step(optimizer)
            if case == "loss" and now:
                print("after the step", file=sys.stderr)
        print(epoch, f"{loss.item():.6f}", file=sys.stderr)


main()
"""

PASS = r"when a pass over the loader over Data (ended|begins)"
STEP = r"when step 3 of AdamW was made"
FAULTS = {
    "more weights": r"  parameters of Sequential \(sum of norms\): [\d.]+ on rank 0, [\d.]+ on rank 1",
    "weights": r"  parameters of Sequential \(sum of norms\): [\d.]+ on rank 0, [\d.]+ on rank 1",
    "rate": r"  lr of AdamW, group 0: 0\.01 on rank 0, 0\.001 on rank 1",
    "mode": r"  training mode of the parts of Sequential: \w+ on rank 0, \w+ on rank 1",
    "loss": r"  loss of the latest backward: [\d.]+ on rank 0, [\d.]+ on rank 1",
}
FINE = ("plain", "workers", "tracker")


def test_a_rank_that_goes_its_own_way_is_noticed_and_others_are_not(forks: Forks, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    settings = [{}, {"DISTIFY_DEBUG": "1"}]
    cases = [(case, env) for case in (*FAULTS, "stream", *FINE) for env in settings]
    ended = dict(
        zip(
            [(case, bool(env)) for case, env in cases],
            forks.together([(script, [case], 2, env, None) for case, env in cases]),
            strict=True,
        )
    )
    for case in FINE:
        plain, debugged = ended[case, False], ended[case, True]
        assert [e.code for e in (*plain, *debugged)] == [0] * 4, (case, plain, debugged)
        shown = [re.findall(r"^\d .*", e.stderr, re.M) for e in (*plain, *debugged)]
        assert len(shown[0]) == 2
        assert all(lines == shown[0] for lines in shown), case
    for case, told in FAULTS.items():
        for debug in (False, True):
            if case == "loss" and not debug:
                continue  # its parts were equal again when the pass ended, weights and loss
            if case == "weights" and not debug:  # by so little that it may be rounding
                assert [e.code for e in ended[case, debug]] == [0, 0]
                warning = rf"distify: {PASS}, parameters of Sequential \(sum of norms\) differed slightly between ranks"
                assert len(re.findall(warning, ended[case, debug][0].stderr)) == 1, ended[case, debug]
                continue
            for e in ended[case, debug]:
                assert e.code == 1, (case, debug, e)
                text = re.sub(r"^\[rank\d\]: ?", "", e.stderr, flags=re.M)
                assert re.search(STEP if debug else PASS, text), (case, text)
                assert re.search(f"^{told}", text, re.M), (case, debug, text)
                since = "step 2 of AdamW was made" if debug else "the run began"
                assert f"They were equal when {since}." in text, (case, text)
                assert re.search(r"patience of train\.py \(3 on rank 0, 4 on rank 1\)", text), text
    for debug in (False, True):
        for e in ended["stream", debug]:
            assert e.code == 1
            assert re.search(STEP if debug else PASS, e.stderr), e.stderr
            assert "torch's random streams differ between ranks; they were equal when" in e.stderr
    assert "after the step" not in ended["loss", True][0].stderr
