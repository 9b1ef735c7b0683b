"""Fixtures of the tests of recovery."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.client import Api
from tests.api.recovery.held_commits import HeldCommits


@pytest.fixture
def commits(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldCommits]:
    """Hold messages back when a test asks for it. They are released at its end."""
    held = HeldCommits(api, monkeypatch)
    yield held
    held.release()
