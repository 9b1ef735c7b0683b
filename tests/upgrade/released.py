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

    Skips the test if the folder is not a clone, or a shallow one. Fails the test if a full clone lacks the commit.
    """
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"false":
        pytest.skip("the last released version is in the history of Git: run `git fetch --unshallow` in a clone")
    commit = released_commit()
    found = _git("archive", "--format=tar", commit)
    if found.returncode:
        reason = found.stderr.decode().strip()
        pytest.fail(f"the clone does not have the last released version, {commit} ({VERSION_FILE.name}): {reason}")
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)
