"""The state machine of the demo's connection: `web/tests/machine.test.mjs`."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.processes import ROOT

WEB = ROOT / "web"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(not (WEB / "node_modules" / "vite").is_dir(), reason="vite is not installed (make web)")
def test_the_state_machine_of_the_demo_passes_its_tests() -> None:
    done = subprocess.run(
        ["node", "--test", "tests/machine.test.mjs"], cwd=WEB, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout
