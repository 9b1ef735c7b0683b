"""The demo's generated types, against the schema as it is."""

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
def test_the_demo_is_typed_by_the_schema_and_its_operations_as_they_are() -> None:
    done = subprocess.run(
        ["node", "codegen.mjs", "--check"], cwd=WEB, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
