"""Writes of MongoDB whose answers are lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.mongo.writes import Write
from tests.api.client import Api


@contextmanager
def only_session_rows_are_written(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let MongoDB write session rows and nothing else, and lose the connection before the answer."""
    rows = api.services.app.store.session_rows
    write = rows.write

    async def write_and_fail(user: UserId, fence: int, updates: Any, _other_writes: Sequence[Write] = ()) -> None:
        await write(user, fence, updates)
        raise Unreachable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(rows), "write", lambda _, *args: write_and_fail(*args))
        yield
