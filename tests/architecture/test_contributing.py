"""Each recipe of CONTRIBUTING.md can be applied to a copy of the project, and what comes of it passes its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("resolvers", "schema", "server", "store", "subscriptions", "tests", "docs", "pyproject.toml")

RULES = [
    "tests/schema/test_contract.py",
    "tests/security/test_authorisation.py::test_every_field_of_the_schema_has_one_rule",
]
_SESSION_TESTS = "tests/api/sessions/test_session_mutations.py"
RECIPES = {
    "Add a field to Session": [
        f"{_SESSION_TESTS}::test_every_device_of_the_user_receives_one_event[noting]",
        f"{_SESSION_TESTS}::test_a_change_survives_the_loss_of_the_cache[after-noting]",
        f"{_SESSION_TESTS}::test_a_change_needs_a_token",
        f"{_SESSION_TESTS}::test_an_argument_out_of_range_is_refused_for_any_target",
        "tests/store/test_session_fields.py::test_a_setting_is_kept_when_its_user_joins_again[note]",
    ],
    "Add an event with its mutation": ["tests/api/live/test_nudging.py"],
}
"""The tests of each recipe, by the heading of its section."""


def section(heading: str) -> str:
    """Return a section of CONTRIBUTING.md."""
    sections = re.split(r"^## ", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)
    (found,) = [text for text in sections if text.startswith(heading + "\n")]
    return found


def copy_project(target: Path) -> None:
    """Copy what the recipes change and need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "static"))
        else:
            shutil.copy(source, target)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the steps, and there is none")
@pytest.mark.parametrize("heading", list(RECIPES))
def test_a_recipe_applies_and_its_tests_pass(tmp_path: Path, heading: str) -> None:
    copy_project(tmp_path)
    # Git must not find a repository that the folder lies in.
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}

    def run(*command: str, text: str | None = None) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, input=text, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{text or ''}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    steps = re.findall(r"^```diff\n(.*?)^```$", section(heading), re.DOTALL | re.MULTILINE)
    assert len(steps) >= 4
    for step in steps:
        run("git", "apply", "-", text=step)
    (tmp_path / "schema" / "schema.graphql").write_text(run(sys.executable, "-m", "server.cli", "schema"))
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *RECIPES[heading], *RULES)


@pytest.mark.parametrize(("heading", "most"), [("Add a field to Session", 6), ("Add an event with its mutation", 13)])
def test_a_recipe_touches_few_files(heading: str, most: int) -> None:
    touched = set(re.findall(r"^\+\+\+ b/(.*)$", section(heading), re.MULTILINE))
    assert len(touched | {"schema/schema.graphql"}) <= most
