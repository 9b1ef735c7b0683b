"""The sources of the last released version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade.released import unpack_released


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sources of the last released version."""
    return unpack_released(tmp_path_factory.mktemp("released"))
