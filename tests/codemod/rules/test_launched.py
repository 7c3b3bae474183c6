"""Questions about processes are answered as on one: no launcher's variables, no process group."""

from __future__ import annotations

import pytest

from distify.codemod.options import Options
from distify.codemod.rewrite import Result, rewrite_source

from ..helpers import codes

HEAD = """\
import os
import torch
import torch.distributed as dist
from os import environ

"""
TRAINING = """
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(9, 4), torch.randn(9, 1)), 3):
    optimizer.zero_grad()
    (model(x) - y).pow(2).mean().backward()
    optimizer.step()
"""


def converted(text: str) -> Result:
    return rewrite_source((HEAD + text + TRAINING).encode(), "train.py", Options())


ANSWERED = [
    ("main = int(os.environ.get('RANK', 0)) == 0", "main = 0 == 0"),
    ("rank = int(os.getenv('LOCAL_RANK', '-1'))", "rank = -1"),
    ("rank = os.environ.get('LOCAL_RANK')", "rank = None"),
    ("rank = os.environ.get('RANK', default=f'{1}')", "rank = f'{1}'"),
    ("main = 'SLURM_PROCID' not in os.environ", "main = True"),
    ("size = int(environ['WORLD_SIZE']) if 'WORLD_SIZE' in environ else 1", "size = 1"),
    ("if 'RANK' in environ:\n    rank = int(environ['RANK'])", "if False:\n    rank = int(environ['RANK'])"),
    ("main = 'RANK' in environ and environ['RANK'] == '0'", "main = False and environ['RANK'] == '0'"),
    ("name = 'RANK'\nenv = os.environ\nrank = env.get(name, '0')", "name = 'RANK'\nenv = os.environ\nrank = '0'"),
    ("def size():\n    return dist.get_world_size() if dist.is_initialized() else 1", "def size():\n    return 1"),
    ("many = dist.is_available() and dist.is_initialized()", "many = dist.is_available() and False"),
]


@pytest.mark.parametrize(("text", "after"), ANSWERED)
def test_what_the_original_finds_is_written(text: str, after: str) -> None:
    result = converted(text)
    assert codes(result).count("DST132") == 1
    assert not result.refused
    assert after + "\n" in result.data.decode()


REFUSED = [
    ("size = int(environ['WORLD_SIZE'])", "reads WORLD_SIZE"),
    (
        "for name in ('RANK', 'SLURM_PROCID'):\n    if name in os.environ:\n        print(os.environ[name])",
        "reads RANK",
    ),
    ("os.environ['RANK'] = '0'", "sets RANK"),
    ("os.environ['MASTER_PORT'] = '29500'", "sets MASTER_PORT"),
    ("os.environ.update(USER='me', WORLD_SIZE='1')", "sets WORLD_SIZE"),
    ("os.environ.update({'MASTER_ADDR': 'localhost'})", "sets MASTER_ADDR"),
    ("os.environ.setdefault('WORLD_SIZE', '1')", "sets WORLD_SIZE"),
    ("rank = os.environ.pop('RANK', None)", "sets RANK"),
    ("try:\n    rank = dist.get_rank()\nexcept ValueError:\n    rank = 0", "get_rank()"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_the_original_needs_or_sets_is_refused(text: str, why: str) -> None:
    result = converted(text)
    assert [why in item.message for item in result.findings if item.code == "DST107"][:1] == [True]
    assert result.data == result.before


LEFT = [
    "name = os.environ.get('USER')",
    "names = {}\nrank = names.get('RANK')\nnames['RANK'] = '0'",
    "for name, value in {'A': '1'}.items():\n    os.environ[name] = value",
    "os.environ.setdefault('MASTER_PORT', '29500')",
    "os.environ['OMP_NUM_THREADS'] = '1'",
    "rank = os.environ.get('RANK', 0)  # distify: ignore[DST107,DST132]",
    "from distify import runtime\nruntime.init()\nrank = os.environ.get('RANK')",
]


@pytest.mark.parametrize("text", LEFT)
def test_what_is_left(text: str) -> None:
    result = converted(text)
    assert not {"DST107", "DST132"} & set(codes(result))
    assert text in result.data.decode()
