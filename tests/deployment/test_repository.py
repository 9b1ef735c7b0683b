"""Files of the repository that hosts, editors and packaging tools read."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_licence_is_the_one_that_the_package_names() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert PROJECT["project"]["license-files"] == ["LICENSE"]


def test_the_workflow_runs_the_checks_of_the_project() -> None:
    workflow = read_yaml(".github/workflows/ci.yml")
    steps = workflow["jobs"]["checks"]["steps"]
    assert ".ci/run" in [step.get("run") for step in steps]
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["checks"]["timeout-minutes"] <= 90


@pytest.mark.parametrize("form", ["bug", "feature"])
def test_issue_forms_have_what_the_host_requires(form: str) -> None:
    content = read_yaml(f".github/ISSUE_TEMPLATE/{form}.yml")
    assert {"name", "description", "body"} <= content.keys()
    ids = [part["id"] for part in content["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0


def test_dependency_updates_cover_every_lock_file() -> None:
    updates = {(u["package-ecosystem"], u["directory"]) for u in read_yaml(".github/dependabot.yml")["updates"]}
    locks = {path.parent for path in ROOT.glob("*/package-lock.json")}
    assert locks
    assert {("npm", f"/{folder.name}") for folder in locks} | {("pip", "/"), ("github-actions", "/")} <= updates


def test_hooks_run_programs_of_the_development_environment() -> None:
    hooks = [hook for repository in read_yaml(".pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    assert hooks
    for hook in hooks:
        assert hook["entry"].split()[0].startswith(".venv/bin/"), hook["id"]


def test_the_package_contains_every_file_that_is_not_a_module() -> None:
    """Files that git tracks inside the packages: scripts and the schema. `make dist` adds the built pages."""
    packages = [name.removesuffix("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]]
    tracked = subprocess.run(["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    data = PROJECT["tool"]["setuptools"]["package-data"]
    included = {
        path.relative_to(ROOT).as_posix()
        for package, globs in data.items()
        for glob in globs
        for path in (ROOT / package).glob(glob)
    }
    assert {path for path in tracked if not path.endswith(".py")} <= included
