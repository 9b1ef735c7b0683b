"""Files are short, documented and used."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest

from store.scripts import read_scripts
from tests.architecture.sources import PACKAGES, ROOT, modules
from tests.conftest import SLOW

LONGEST = 400
CONFLICT_MARKER = re.compile(rb"^(?:<{7}|>{7}) ", re.MULTILINE)


def too_long(*folders: str) -> dict[str, int]:
    scripts = [path for folder in folders for path in (ROOT / folder).rglob("*.lua")]
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in [*modules(*folders), *scripts]
    }
    assert lengths
    return {path: lines for path, lines in lengths.items() if lines > LONGEST}


@pytest.mark.parametrize("folder", [*PACKAGES, "tests"])
def test_no_file_has_more_than_400_lines(folder: str) -> None:
    assert too_long(folder) == {}


def test_every_module_has_a_docstring() -> None:
    silent = [
        path.relative_to(ROOT).as_posix()
        for path in modules(*PACKAGES)
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_the_scripts_on_disk_are_the_scripts_in_use() -> None:
    on_disk = {path.stem for path in (ROOT / "store").glob("*/scripts/[!_]*.lua")}
    assert set(read_scripts()) == on_disk


def test_the_slow_tests_exist_and_are_sorted() -> None:
    missing = []
    for name in SLOW:
        path, _, test = name.partition("::")
        if not (ROOT / path).exists() or (test and f"def {test}(" not in (ROOT / path).read_text()):
            missing.append(name)
    assert missing == []
    assert list(SLOW) == sorted(set(SLOW))


def test_no_tracked_file_has_a_merge_conflict() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    files = [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    assert ROOT / "docs" / "adr" / "0001-ids-that-are-indexes.md" in files
    conflicts = [path for path in files if CONFLICT_MARKER.search(path.read_bytes())]
    assert [path.relative_to(ROOT).as_posix() for path in conflicts] == []
