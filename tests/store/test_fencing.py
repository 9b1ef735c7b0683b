"""A former holder of a user's lock, which did not notice the loss, cannot overwrite a later holder's change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.sessions.reading import mark_read
from resolvers.sessions.session_changes import pin_session
from resolvers.users.callers import Caller, CallerRole
from server.services import Services, open_services
from server.settings import Settings
from store.base.errors import Fenced
from store.base.ids import UserId, private_id
from store.mongo.collections import SESSIONS, session_row_id
from store.sessions import user_locks as locks
from store.store import Store

ANNA, BEN = UserId("anna"), UserId("ben")
CONVERSATION = private_id(ANNA, BEN)


_USUAL_LOCK_MS = locks.LOCK_MS


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    """A server on which ben has three unread messages."""
    async with open_services(settings) as opened:
        for user in (ANNA, BEN):
            await opened.sign_in(Caller(user, CallerRole.USER, 2e9))
        for number in range(3):
            await send_message(opened.app, ANNA, NewMessage(BEN, None, f"m{number}"))
        yield opened


@pytest.fixture
async def other(services: Services, settings: Settings) -> AsyncIterator[Services]:
    """Another server of the deployment."""
    async with open_services(settings) as opened:
        yield opened


async def _row(store: Store) -> Any:
    return await store.mongo.find_one(SESSIONS, {"_id": session_row_id(BEN, CONVERSATION)})


async def test_a_write_behind_a_later_fence_is_refused(
    services: Services, other: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = services.app.store
    monkeypatch.setattr(locks, "LOCK_MS", 150)
    async with store.locks.hold(BEN, [CONVERSATION]) as paused:
        monkeypatch.setattr(locks, "LOCK_MS", _USUAL_LOCK_MS)
        # This waits until the first lock has ended.
        await mark_read(other.app, BEN, CONVERSATION, 2)
        row = await _row(store)
        with pytest.raises(Fenced):
            await store.session_rows.write(BEN, paused.fence, {CONVERSATION: {"$max": {"r": 3, "rn": 3}}})
        assert await _row(store) == row


async def _pause_once(
    monkeypatch: pytest.MonkeyPatch, store: Store, pause: Callable[[], Awaitable[object]], *, written: bool
) -> list[bool]:
    """Pause the first holder for longer than its lock lasts, before or after its write to MongoDB."""
    write = store.session_rows.write
    attempts: list[bool] = []

    async def paused(*args: Any) -> None:
        attempts.append(True)
        if len(attempts) == 1 and not written:
            await pause()
        await write(*args)
        if len(attempts) == 1 and written:
            await pause()

    monkeypatch.setattr(type(store.session_rows), "write", lambda rows, *args: paused(*args))
    return attempts


@pytest.mark.parametrize("written", [False, True])
async def test_a_server_that_lost_its_lock_retries_and_both_changes_hold(
    services: Services, other: Services, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    store = services.app.store

    async def while_another_changes_it() -> None:
        # Only the lock of the paused server ends soon. The other one waits for that.
        monkeypatch.setattr(locks, "LOCK_MS", _USUAL_LOCK_MS)
        await pin_session(other.app, BEN, CONVERSATION, 7)

    attempts = await _pause_once(monkeypatch, store, while_another_changes_it, written=written)
    monkeypatch.setattr(locks, "LOCK_MS", 150)
    session = await mark_read(services.app, BEN, CONVERSATION, None)
    # Either the other server found the paused one's write and loaded the state again, or the paused one wrote twice.
    assert len(attempts) == (2 if written else 3)
    assert (session.read_seq, session.unread_count, session.priority) == (3, 0, 7)
    found = await other.app.store.sessions.find(BEN, CONVERSATION)
    assert found == session
    await services.app.receipts.close()
    session = await store.sessions.find(ANNA, CONVERSATION)
    assert session is not None
    assert session.peer_read_seq == 3
