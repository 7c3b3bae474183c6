"""The example workflow of docs/workflow.yml: its steps, run by bash with stand-ins for what they call."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from distify.codemod.cli import app

WORKFLOW = yaml.safe_load((Path(__file__).parents[1] / "docs" / "workflow.yml").read_text())
JOB = WORKFLOW["jobs"]["review"]
STEPS = {step["name"]: step for step in JOB["steps"] if "name" in step}


def run(folder, name, **tools):
    """What a step calls, with its variables; `tools` are the bodies of stand-ins."""
    tools_folder = folder / "bin"
    tools_folder.mkdir(exist_ok=True)
    for tool, body in tools.items():
        (tools_folder / tool).write_text(f'#!/bin/bash\necho "{tool} $*" >> calls\n{body}\n')
        (tools_folder / tool).chmod(0o755)
    variables = {
        "GITHUB_STEP_SUMMARY": "summary",
        "GITHUB_OUTPUT": "output",
        "GITHUB_REPOSITORY": "me/it",
        "NUMBER": "7",
    }
    variables["PATH"] = f"{tools_folder}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", STEPS[name]["run"]], cwd=folder, env=variables, check=False)
    calls = folder / "calls"
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


def test_the_workflow_has_the_rights_that_it_needs_and_no_more():
    assert WORKFLOW["permissions"] == {}
    assert JOB["permissions"] == {"contents": "read", "pull-requests": "write", "security-events": "write"}
    assert list(WORKFLOW[True]) == ["pull_request"]  # YAML 1.1 reads `on` as true; pull_request_target would be unsafe


@pytest.mark.parametrize(
    "step", [step for step in JOB["steps"] if "run" in step], ids=lambda step: step.get("name", "pip")
)
def test_steps_are_sound_scripts(step, tmp_path):
    assert "${{" not in step["run"]  # what a pull request says must not become a command
    subprocess.run(["bash", "-n", "-c", step["run"]], check=True)
    if shutil.which("shellcheck"):
        (tmp_path / "step.sh").write_text("#!/bin/bash\n" + step["run"])
        subprocess.run(["shellcheck", tmp_path / "step.sh"], check=True)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_check_tells_and_hands_its_code_on(tmp_path, code):
    status, calls = run(tmp_path, "Check", distify=f'echo "### distify check"\nexit {code}')
    assert status == 0
    assert calls == ["distify check . --format sarif", "distify check . --format markdown"]
    assert (tmp_path / "output").read_text() == f"code={code}\n"
    assert (tmp_path / "summary").read_text() == "### distify check\n"


def test_what_it_calls_is_there_and_begins_as_the_comment_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text("print(1)\n")
    result = CliRunner().invoke(app, ["check", ".", "--format", "markdown"])
    assert result.exit_code == 0
    assert result.stdout.startswith("### distify")
    assert 'startswith("### distify")' in STEPS["Comment"]["run"]


def test_the_comment_is_made_once_and_then_changed(tmp_path):
    assert run(tmp_path, "Comment", gh="")[1][1] == "gh pr comment 7 --repo me/it --body-file distify.md"
    (tmp_path / "calls").unlink()
    status, calls = run(tmp_path, "Comment", gh='[ "$2" = -X ] || printf "11\\n22\\n"')
    assert status == 0
    assert calls[1:] == ["gh api -X PATCH repos/me/it/issues/comments/22 -F body=@distify.md"]
