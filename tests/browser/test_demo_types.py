"""The demo's generated types match the schema."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.processes import ROOT

WEB = ROOT / "web"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(
    not (WEB / "node_modules" / "@graphql-codegen").is_dir(), reason="@graphql-codegen is not installed (make web)"
)
def test_the_demos_generated_types_are_up_to_date() -> None:
    done = subprocess.run(
        ["node", "codegen.mjs", "--check"], cwd=WEB, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
