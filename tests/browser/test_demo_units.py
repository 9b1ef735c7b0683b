"""The parts of the demo that need no page: `web/tests/*.test.mjs`."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.browser.programs import PROGRAMS
from tests.processes import ROOT

WEB = ROOT / "web"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(not (WEB / "node_modules" / "vite").is_dir(), reason="vite is not installed (make web)")
@pytest.mark.parametrize("program", sorted(path.name for path in PROGRAMS.glob("*.test.mjs")))
def test_a_part_of_the_demo_passes_its_tests(program: str) -> None:
    done = subprocess.run(
        ["node", "--test", f"tests/{program}"], cwd=WEB, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout
