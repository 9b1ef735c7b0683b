"""Changed sessions in channels whose places could not be read: the event fails as unavailable, so it is tried again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from schema.base.batch_loader import BatchLoader
from schema.events.sessions import _visible_sessions
from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.sessions.fields import record_of
from store.sessions.session import Session

CHANNEL = ConversationId("c_1.2")


async def read_nothing(_: list[str]) -> list[Any]:
    raise Unreachable("Redis does not answer")


async def read_hidden(keys: list[str]) -> list[Any]:
    return [None for _ in keys]


def visible_sessions(read: Any) -> Any:
    loaders = SimpleNamespace(conversations=BatchLoader(read))
    root: Any = SimpleNamespace(changed=[Session(UserId("ann"), CHANNEL, record_of())])
    info: Any = SimpleNamespace(context=SimpleNamespace(loaders=loaders))
    return _visible_sessions(root, info)


async def test_an_event_whose_channels_cannot_be_read_is_unavailable() -> None:
    with pytest.raises(Unreachable):
        await visible_sessions(read_nothing)


async def test_sessions_in_hidden_channels_are_left_out() -> None:
    assert await visible_sessions(read_hidden) == []
