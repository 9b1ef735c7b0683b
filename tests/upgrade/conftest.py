"""Fixtures: the sources of the last released version, and processes of this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.conftest import api, deployments, open_api, other_api, other_process, process
from tests.store.conftest import store
from tests.upgrade.released import unpack_released

__all__ = ["api", "deployments", "open_api", "other_api", "other_process", "process", "store"]


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sources of the last released version."""
    return unpack_released(tmp_path_factory.mktemp("released"))
