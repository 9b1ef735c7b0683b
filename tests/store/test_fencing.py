"""A holder of a user's lock that lost it without noticing changes nothing behind a later holder's back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from resolvers import sessions
from resolvers.callers import Caller, CallerRole
from resolvers.messages import NewMessage, send_message
from resolvers.sessions import mark_read
from server.services import Services, open_services
from server.settings import Settings
from store.cache import Call
from store.errors import Fenced
from store.ids import ConversationId, UserId, private_id
from store.reading import update_read
from store.rows import SESSIONS, session_row_id
from store.store import Store

ANNA, BEN = UserId("anna"), UserId("ben")
CONVERSATION = private_id(ANNA, BEN)


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    """Three messages wait for ben."""
    async with open_services(settings) as opened:
        for user in (ANNA, BEN):
            await opened.sign_in(Caller(user, CallerRole.USER, 2e9))
        for number in range(3):
            await send_message(opened.app, ANNA, NewMessage(BEN, None, f"m{number}"))
        yield opened


async def _end_lock(store: Store) -> None:
    """As when its time is over."""
    assert await store.cache.one(Call("DEL", None, (store.keys.user(BEN)[8],))) == 1


async def test_a_write_after_a_later_holders_is_refused_and_changes_nothing(services: Services) -> None:
    store = services.app.store
    async with store.locks.hold(BEN, CONVERSATION) as paused:
        await _end_lock(store)
        # Another server's device: this process's own wait in line.
        store.locks._local.clear()
        await mark_read(services.app, BEN, CONVERSATION, 2)
        row = await store.mongo.find_one(SESSIONS, {"_id": session_row_id(BEN, CONVERSATION)})
        with pytest.raises(Fenced):
            await update_read(
                store.mongo, store.receipts, BEN, CONVERSATION,
                seq=3, n=3, advanced=False, fence=paused.fence, now_ms=store.clock.now_ms(),
            )  # fmt: skip
        assert await store.mongo.find_one(SESSIONS, {"_id": session_row_id(BEN, CONVERSATION)}) == row


async def test_who_lost_the_lock_before_the_cache_knew_begins_anew(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    async def slow_update(*args: Any, **options: Any) -> None:
        nonlocal attempts
        attempts += 1
        await update_read(*args, **options)
        if attempts == 1:
            await _end_lock(services.app.store)

    monkeypatch.setattr(sessions, "update_read", slow_update)
    session = await mark_read(services.app, BEN, ConversationId(CONVERSATION), None)
    assert (session.read_seq, session.unread_count, attempts) == (3, 0, 2)
