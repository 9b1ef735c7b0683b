"""Sending a message again after its server died before the fan-out."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import Api, private_id
from tests.api.paused_step import PausedStep


async def test_resending_a_stored_message_returns_a_session_that_includes_it(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice, "first")
    await api.wait_until_idle()

    paused = PausedStep(api.services.app.delivery.fanout_stage, "_fan_out", monkeypatch)
    first_send = asyncio.create_task(api.send(alice, bob, "second", idempotencyKey="k"))
    await paused.reached.wait()
    try:
        repeated = await other_api.send(alice, bob, "second", idempotencyKey="k")
        assert (repeated["replayed"], repeated["message"]["seq"]) == (True, 2)
        session = repeated["session"]
        assert (session["writeSeq"], session["readSeq"], session["unreadCount"]) == (2, 2, 0)
        assert session == await other_api.session(alice, private_id(alice, bob))
        assert await other_api.total_unread(bob) == 1
    finally:
        paused.resume.set()
    # The first server was only slow and fans the message out again: nothing is counted twice.
    assert (await first_send)["message"] == repeated["message"]
    await api.wait_until_idle()
    assert await api.total_unread(bob) == 1
