"""The sources of the last released version, from the history of Git."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.processes import ROOT

VERSION_FILE = ROOT / "tests" / "upgrade" / "released_version.txt"


def released_commit() -> str:
    """Return the commit of the last released version."""
    lines = VERSION_FILE.read_text().splitlines()
    (commit,) = [line for line in lines if line and not line.startswith("#")]
    return commit


def unpack_released(folder: Path) -> Path:
    """Write the sources of the last released version into a folder, and return it.

    Skips the test if the project is no clone of Git, and fails it if the clone does not have the commit.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("the last released version is in the history of Git, and this is no clone")
    commit = released_commit()
    found = subprocess.run(["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        pytest.fail(
            f"the clone does not have the last released version, {commit} ({VERSION_FILE.name}): "
            f"run `git fetch --unshallow`, or `git fetch origin {commit}`. Git says: {found.stderr.decode().strip()}"
        )
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder
