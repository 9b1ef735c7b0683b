"""A message whose server died before it showed it: who sends it again is answered as if it had not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import Api, private_id


async def test_who_sends_again_what_is_stored_and_not_shown_is_answered_with_a_session_that_holds_it(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice, "first")
    await api.wait_until_idle()

    delivery, alive = api.services.app.delivery, asyncio.Event()
    show = delivery.fanout_stage._fan_out

    async def show_late(batch: Any) -> None:
        await alive.wait()
        await show(batch)

    monkeypatch.setattr(delivery.fanout_stage, "_fan_out", show_late)
    dying = asyncio.create_task(api.send(alice, bob, "second", idempotencyKey="k"))
    while api.database["messages"].count_documents({}) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    try:
        again = await other_api.send(alice, bob, "second", idempotencyKey="k")
        assert (again["replayed"], again["message"]["seq"]) == (True, 2)
        session = again["session"]
        assert (session["writeSeq"], session["readSeq"], session["unreadCount"]) == (2, 2, 0)
        assert session == await other_api.session(alice, private_id(alice, bob))
        assert await other_api.total_unread(bob) == 1
    finally:
        alive.set()
    # Whom it was that died, and shows it again: nothing is counted twice.
    assert (await dying)["message"] == again["message"]
    await api.wait_until_idle()
    assert await api.total_unread(bob) == 1
