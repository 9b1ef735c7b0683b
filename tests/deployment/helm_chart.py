"""Renders the Helm chart with Helm itself, and reads manifests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.deployment.compose_file import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "confab"
KUBERNETES = DEPLOY / "kubernetes"

Manifest = dict[str, Any]

_LINT = "import helm_python, json, sys; print(json.dumps(helm_python.lint(sys.argv[1], strict=True)))"


class ChartRefused(Exception):
    """Raised when Helm does not accept the values."""


def render(values_file: Path) -> str:
    """Return the manifests of the chart as text. Raises ChartRefused.

    Helm runs in a process of its own, because it brings the runtime of Go with its signal handlers.
    """
    command = [sys.executable, str(DEPLOY / "render.py"), str(values_file)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if result.returncode != 0:
        raise ChartRefused(result.stderr)
    return result.stdout


def lint() -> list[str]:
    """Return the findings of `helm lint --strict` that are warnings or errors."""
    command = [sys.executable, "-c", _LINT, str(CHART)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    findings: list[dict[str, Any]] = json.loads(result.stdout)["messages"]
    assert findings, "Helm looked at no chart"
    return [f"{finding['path']}: {finding['error']}" for finding in findings if finding["severity"] > 1]


def parse(text: str) -> list[Manifest]:
    """Return the objects of a file of manifests."""
    return [document for document in yaml.safe_load_all(text) if document]


def committed() -> list[Manifest]:
    """Return the objects of deploy/kubernetes/confab.yaml."""
    return parse((KUBERNETES / "confab.yaml").read_text(encoding="utf-8"))


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """Return the object of a kind and name."""
    (found,) = (each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def pods(manifests: list[Manifest]) -> dict[str, Manifest]:
    """Return the templates of pods, by the name of the object that has them."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in manifests
        if each["kind"] in {"Deployment", "StatefulSet", "Job"}
    }
