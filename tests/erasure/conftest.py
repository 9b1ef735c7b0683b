"""Fixtures: processes of one deployment, whose jobs run at once."""

from __future__ import annotations

import pytest

from tests.api.conftest import (
    _losing_process,
    api,
    deployments,
    losing_api,
    open_api,
    other_api,
    other_process,
    process,
)

__all__ = ["_losing_process", "api", "deployments", "losing_api", "open_api", "other_api", "other_process", "process"]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next pass at once."""
    monkeypatch.setattr("resolvers.erasure.erasure_job._PAUSE_SECONDS", 0.0)
