"""The command lines of `rewrite` and `check` that are well-formed, read without typer.

Importing typer and building its commands takes as long as the work on a short script. What is not read here (help, a
word that is no option, an option without its value) is left to typer, which has the same options and says what is
wrong.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Values = dict[str, Any]
    """What is given for each parameter; `paths` is always there."""

    Takes = tuple[str, bool | str]
    """The parameter that an option fills, and with what: a constant, or the word after it."""

ONE, SEVERAL = "one value", "one value each time"

_BOTH: Mapping[str, Takes] = {
    "--follow": ("follow", True),
    "--no-follow": ("follow", False),
    "--budget": ("budget", ONE),
    "--jobs": ("jobs", ONE),
    "-j": ("jobs", ONE),
    "--stdin-filename": ("stdin_filename", ONE),
    "--format": ("form", ONE),
    "--quiet": ("quiet", True),
    "-q": ("quiet", True),
}

OPTIONS: Mapping[str, Mapping[str, Takes]] = {
    "rewrite": {
        **_BOTH,
        "--backend": ("backend", ONE),
        "--precision": ("precision", ONE),
        "--accumulate": ("accumulate", ONE),
        "--batch": ("batch", ONE),
        "--batchnorm": ("batchnorm", ONE),
        "--zero-stage": ("zero_stage", ONE),
        "--shard-size": ("shard_size", ONE),
        "--reshard": ("reshard", ONE),
        "--offload": ("offload", ONE),
        "--checkpoint-activations": ("checkpoint_activations", True),
        "--meta-init": ("meta_init", True),
        "--output": ("output", ONE),
        "-o": ("output", ONE),
        "--diff": ("diff", True),
        "--check": ("check", True),
        "--partial": ("partial", True),
        "--report": ("page", ONE),
        "--verbose": ("verbose", True),
        "-v": ("verbose", True),
    },
    "check": {
        **_BOTH,
        "--select": ("select", SEVERAL),
        "--ignore": ("ignore", SEVERAL),
        "--per-file-ignores": ("per_file_ignores", SEVERAL),
        "--fix": ("fix", True),
        "--exit-zero": ("exit_zero", True),
    },
}


def read(verb: str, words: Sequence[str]) -> Values | None:
    """The values that the words after a verb give, `None` if typer has to look at them."""
    options = OPTIONS[verb]
    values: Values = {}
    paths: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            paths += rest
            break
        if word == "-" or word[:1] not in ("-", ""):
            paths.append(word)
            continue
        name, equals, value = word.partition("=") if word[:2] == "--" else (word, "", "")
        parameter, takes = options.get(name, ("", False))
        if not parameter or (equals and isinstance(takes, bool)):
            return None
        if isinstance(takes, bool):
            values[parameter] = takes
            continue
        if not equals:
            value = next(rest, "--")
            if value[:1] == "-" and value != "-":
                return None
        if takes is ONE:
            values[parameter] = value
        else:
            values.setdefault(parameter, []).append(value)
    values["paths"] = paths
    return values if paths and "" not in paths else None
