"""Where options come from, and what an unknown one says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from distify.runtime.config import Config, ConfigError, resolve


def table(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


def test_defaults(tmp_path: Path) -> None:
    assert resolve({}, {}, tmp_path) == Config("ddp", "fp32", 1, "global", "exact", 2)


def test_code_wins_over_environment_over_pyproject(tmp_path: Path) -> None:
    table(tmp_path, '[tool.distify]\nbackend = "deepspeed"\nprecision = "bf16"\naccumulate = 4\nzero-stage = 3\n')
    environment = {"DISTIFY_BACKEND": "fsdp", "DISTIFY_ACCUMULATE": "2", "DISTIFY_BATCH": ""}
    found = resolve({"backend": "ddp", "accumulate": None}, environment, tmp_path)
    assert found == Config("ddp", "bf16", 2, "global", "exact", 3)


def test_the_nearest_pyproject_counts(tmp_path: Path) -> None:
    table(tmp_path, '[tool.distify]\nbackend = "fsdp"\n')
    inner = tmp_path / "package" / "scripts"
    inner.mkdir(parents=True)
    assert resolve({}, {}, inner).backend == "fsdp"
    table(tmp_path / "package", "[tool.other]\n")
    assert resolve({}, {}, inner).backend == "ddp"


@pytest.mark.parametrize(
    ("given", "environment", "message"),
    [
        ({"backend": "fdsp"}, {}, r"runtime\.init\(backend=…\): unknown value 'fdsp', did you mean 'fsdp'\?"),
        ({"precision": "float16"}, {}, r"valid: fp32, bf16, fp16"),
        ({"accumulate": 0}, {}, r"accumulate=…\): 0 is not a whole number from 1"),
        ({"accumulate": 2.0}, {}, r"2\.0 is not a whole number"),
        ({"accumulate": True}, {}, r"True is not a whole number"),
        ({"zero_stage": 4}, {}, r"from 0 to 3"),
        ({}, {"DISTIFY_BATCH": "per_device"}, r"DISTIFY_BATCH: unknown value 'per_device', did you mean 'per-device'"),
        ({}, {"DISTIFY_ACCUMULATE": "four"}, r"DISTIFY_ACCUMULATE: 'four' is not"),
        ({}, {"DISTIFY_BACKENDS": "ddp"}, r"unknown environment variable DISTIFY_BACKENDS, did you mean 'DISTIFY_BACK"),
    ],
)
def test_unknown_values_name_the_nearest(
    given: dict[str, object], environment: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(given, environment, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tool.distify]\nbackand = "ddp"\n', r"unknown key 'backand', did you mean 'backend'\?"),
        ('[tool.distify]\nbatchnorm = "exakt"\n', r"\[tool\.distify\] batchnorm: unknown value 'exakt', did you mean"),
        ("[tool]\ndistify = 3\n", r"must be a table"),
        ("[tool.distify\n", r"pyproject\.toml can't be read: .*line 1"),
    ],
)
def test_pyproject_errors_name_the_file(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        resolve({}, {}, table(tmp_path, text))
    assert str(tmp_path / "pyproject.toml") in str(error.value)


def test_switches_are_known(tmp_path: Path) -> None:
    resolve(
        {}, {"DISTIFY_TRACE": "x", "DISTIFY_ALL_RANKS": "1", "DISTIFY_TIMEOUT": "5", "DISTIFY_DEBUG": "1"}, tmp_path
    )


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
def test_a_stage_of_deepspeed_beside_another_backend(backend: str, tmp_path: Path) -> None:
    code, environment = {"backend": backend, "zero_stage": 1}, {"DISTIFY_ZERO_STAGE": "1"}
    with pytest.raises(ConfigError, match=rf"zero_stage=…\): 1 is a stage of .* '{backend}', .*set backend to 'deepsp"):
        resolve(code, {}, tmp_path)
    with pytest.raises(ConfigError, match=r"DISTIFY_ZERO_STAGE: 1 is a stage"):
        resolve({"backend": backend}, environment, tmp_path)
    assert resolve({"backend": "deepspeed", "zero_stage": 0}, environment, tmp_path).zero_stage == 0
    table(tmp_path, f'[tool.distify]\nbackend = "{backend}"\nzero_stage = 1\n')
    with pytest.raises(ConfigError, match=r"pyproject\.toml: \[tool\.distify\] zero_stage: 1 is a stage"):
        resolve({}, {}, tmp_path)
    table(tmp_path, '[tool.distify]\nbackend = "deepspeed"\nzero_stage = 1\n')
    assert resolve({"backend": backend}, {}, tmp_path).backend == backend


@pytest.mark.parametrize("backend", ["ddp", "deepspeed"])
def test_a_shard_size_beside_another_backend(backend: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"shard_size=…\): 4 is how many .* '{backend}', .*set backend to 'fsdp'"):
        resolve({"backend": backend, "shard_size": 4}, {}, tmp_path)
    table(tmp_path, '[tool.distify]\nbackend = "fsdp"\nshard-size = 4\n')
    assert resolve({}, {}, tmp_path).shard_size == 4
    assert resolve({"backend": backend}, {}, tmp_path).backend == backend


def test_options_of_memory(tmp_path: Path) -> None:
    asked = {"backend": "fsdp", "checkpoint_activations": True, "meta_init": True, "offload": "cpu"}
    found = resolve(asked, {"DISTIFY_META_INIT": "0", "DISTIFY_RESHARD": "never"}, tmp_path)
    assert (found.checkpoint_activations, found.meta_init, found.offload, found.reshard) == (True, True, "cpu", "never")
    table(tmp_path, "[tool.distify]\ncheckpoint-activations = true\n")
    assert resolve({}, {}, tmp_path).checkpoint_activations is True
    assert resolve({}, {"DISTIFY_CHECKPOINT_ACTIVATIONS": "0"}, tmp_path).checkpoint_activations is False
    idle = {"backend": "ddp", "offload": "none", "reshard": "auto", "meta_init": False}
    assert resolve(idle, {}, tmp_path).backend == "ddp"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"offload": "cpu"}, r"offload=…\): cpu is where parts .* is 'ddp', .*set backend to 'fsdp'"),
        ({"reshard": "never", "backend": "deepspeed"}, "never is when gathered parameters are dropped"),
        ({"meta_init": True, "backend": "deepspeed"}, "a model that is built whole, .*set backend to 'fsdp'"),
        ({"offload": "cpu", "backend": "deepspeed"}, "a model that is built whole, .*set backend to 'fsdp'"),
        ({"meta_init": "maybe", "backend": "fsdp"}, "'maybe' is neither true nor false"),
        ({"offload": "nvme", "backend": "fsdp"}, r"unknown value 'nvme', .*valid: none, cpu"),
    ],
)
def test_options_of_memory_that_mean_nothing(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(given, {}, tmp_path)


def test_tomli_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Python 3.10, which has no tomllib; elsewhere that plays the part of tomli."""
    if sys.version_info >= (3, 11):
        import tomllib

        monkeypatch.setitem(sys.modules, "tomli", tomllib)
        monkeypatch.setitem(sys.modules, "tomllib", None)
        monkeypatch.setattr(sys, "version_info", (3, 10, 0))
    assert resolve({}, {}, table(tmp_path, '[tool.distify]  # of 3.10\nbackend = "fsdp"\n')).backend == "fsdp"
