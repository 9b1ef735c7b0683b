"""The documentation site, as `make docs-build` makes it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.site.prepare import prepare
from docs.site.search_order import order_search

needs_generator = pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs the extra docs")


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared sources of the site."""
    folder = tmp_path_factory.mktemp("site") / "site"
    prepare(folder)
    return folder


@pytest.fixture(scope="package")
def built(site: Path) -> Path:
    """The pages that the generator makes of the sources."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(site / "mkdocs.yml")]
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    order_search(site)
    return site / "html"
