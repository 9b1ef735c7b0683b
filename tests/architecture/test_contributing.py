"""The mutation that CONTRIBUTING.md walks through can be added as it says, and works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TAKEN = ("resolvers", "schema", "server", "store", "subscriptions", "tests", "docs", "pyproject.toml")


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the steps, and there is none")
def test_each_step_applies_and_what_comes_of_it_passes_its_tests(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "static")
    for name in TAKEN:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(source, tmp_path)
    steps = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)
    assert len(steps) > 8
    # Of no repository that the folder may lie in.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}

    def run(*command: str, text: str | None = None) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, input=text, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{text or ''}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    for step in steps:
        run("git", "apply", "-", text=step)
    (tmp_path / "schema" / "schema.graphql").write_text(run(sys.executable, "-m", "server.cli", "schema"))
    new = [
        "tests/api/sessions/test_nicknames.py",
        "tests/api/sessions/test_session_mutations.py::test_every_device_is_told_once_and_nobody_else[naming]",
    ]
    rules = [
        "tests/schema/test_contract.py",
        "tests/security/test_authorisation.py::test_every_field_of_the_schema_has_one_rule",
    ]
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *new, *rules)
