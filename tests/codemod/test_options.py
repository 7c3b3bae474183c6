"""Options: what is valid, which source wins, and what an error says."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from distify.codemod.options import (
    CHOICES,
    DEFAULTS,
    INTEGERS,
    SWITCHES,
    TABLES,
    TOOL,
    OptionError,
    Options,
    configuration,
)


def test_given_holds_what_was_given_in_order():
    options = Options(accumulate="4", backend="deepspeed", zero_stage=0, configured={"precision": "bf16"})
    assert list(options.given().items()) == [("backend", "deepspeed"), ("accumulate", 4), ("zero_stage", 0)]
    assert options.effective("precision") == "bf16"
    assert options.effective("backend") == "deepspeed"
    assert options.effective("batch") == "global"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("backend", "fdsp", "--backend: unknown value 'fdsp', did you mean 'fsdp'? (valid: ddp, fsdp, deepspeed)"),
        ("backend", "FSDP", "did you mean 'fsdp'?"),
        ("precision", "float16", "did you mean 'fp16'?"),
        ("precision", "xyz", "valid: fp32, bf16, fp16"),
        ("batch", "per_device", "did you mean 'per-device'?"),
        ("accumulate", "0", "--accumulate: '0' is not a whole number from 1"),
        ("accumulate", "2.5", "is not a whole number from 1"),
        ("accumulate", True, "is not a whole number from 1"),
        ("accumulate", 4.0, "is not a whole number from 1"),
        ("zero_stage", "4", "--zero-stage: '4' is not a whole number from 0 to 3"),
        ("zero_stage", "-1", "is not a whole number from 0 to 3"),
        ("shard_size", "1", "--shard-size: '1' is not a whole number from 2"),
    ],
)
def test_an_unknown_value_names_the_nearest(name, value, message):
    with pytest.raises(OptionError) as error:
        Options(**{name: value})
    assert message in str(error.value)


def write(folder, text):
    (folder / "pyproject.toml").write_text(text)


def test_the_environment_is_above_pyproject(tmp_path):
    write(tmp_path, '[tool.distify]\nbackend = "fsdp"\naccumulate = 2\nzero-stage = 3\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    found = configuration(below, {"DISTIFY_BACKEND": "deepspeed", "DISTIFY_PRECISION": ""})
    assert found == {"backend": "deepspeed", "accumulate": 2, "zero_stage": 3}


def test_the_nearest_pyproject_counts(tmp_path):
    write(tmp_path, '[tool.distify]\nbackend = "fsdp"\n')
    below = tmp_path / "a"
    below.mkdir()
    write(below, "[project]\nname = 'distify-user'\n")
    assert configuration(below, {}) == {}


def test_defaults_without_any(tmp_path):
    assert configuration(tmp_path, {}) == {}
    assert all(Options().effective(name) == value for name, value in DEFAULTS.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tool.distify]\nbackend = "ddpp"\n', "[tool.distify] backend: unknown value 'ddpp', did you mean 'ddp'?"),
        ("[tool.distify]\nbackned = 1\n", "[tool.distify]: unknown key 'backned', did you mean 'backend'?"),
        ("[tool.distify]\naccumulate = 0\n", "[tool.distify] accumulate: '0' is not a whole number from 1"),
        ("[tool.distify]\nbackend = ['ddp']\n", "unknown value"),
        ("[tool]\ndistify = 3\n", "[tool.distify] must be a table"),
        ("[tool.distify\n", "pyproject.toml: "),
    ],
)
def test_errors_in_pyproject_name_the_file(tmp_path, text, message):
    write(tmp_path, text)
    with pytest.raises(OptionError) as error:
        configuration(tmp_path, {})
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_errors_in_the_environment_name_the_variable(tmp_path):
    with pytest.raises(OptionError, match="DISTIFY_ZERO_STAGE: '9' is not"):
        configuration(tmp_path, {"DISTIFY_ZERO_STAGE": "9"})


def test_an_unknown_variable_names_the_nearest(tmp_path):
    with pytest.raises(OptionError, match="DISTIFY_BACKND, did you mean 'DISTIFY_BACKEND'"):
        configuration(tmp_path, {"DISTIFY_BACKND": "ddp"})
    assert configuration(tmp_path, {"DISTIFY_TRACE": "x.jsonl"}) == {}


def test_the_runtime_has_the_same_options():
    from distify.runtime import config

    assert config.CHOICES == CHOICES
    assert config.INTEGERS == INTEGERS
    assert dataclasses.asdict(config.Config()) == DEFAULTS
    assert config.SWITCHES == SWITCHES
    assert (*TOOL, *TABLES) == config.REWRITING


@pytest.mark.parametrize("backend", ["ddp", "fsdp"])
def test_a_zero_stage_without_deepspeed(backend: str) -> None:
    with pytest.raises(OptionError, match=f"--zero-stage goes with --backend deepspeed, not with {backend}"):
        Options(backend=backend, zero_stage=2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"offload": "cpu", "backend": "ddp"}, "--offload goes with --backend fsdp, not with ddp"),
        ({"reshard": "never", "backend": "deepspeed"}, "--reshard goes with --backend fsdp, not with deepspeed"),
        ({"meta_init": True, "backend": "ddp"}, "--meta-init goes with --backend fsdp, not with ddp"),
        ({"offload": "cpu", "backend": "deepspeed"}, "--offload goes with --backend fsdp, not with deepspeed"),
        ({"meta_init": "maybe"}, "--meta-init: 'maybe' is neither true nor false"),
        ({"reshard": "sometimes"}, "--reshard: unknown value 'sometimes'"),
    ],
)
def test_options_of_memory_that_mean_nothing(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Options(**given)
    assert Options(backend="ddp", offload="none", reshard="auto").given()["offload"] == "none"


def test_a_shard_size_without_fsdp() -> None:
    with pytest.raises(OptionError, match="--shard-size goes with --backend fsdp, not with deepspeed"):
        Options(backend="deepspeed", shard_size=2)
    assert Options(shard_size="8", backend="fsdp").given() == {"backend": "fsdp", "shard_size": 8}  # type: ignore[arg-type]
