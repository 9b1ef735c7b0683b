"""A row locked by a transaction. A server that dies in a transaction leaves its rows locked for a minute."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.client import TIMEOUT_SECONDS, Api, gather_all
from tests.api.conftest import Deployments


async def test_a_locked_group_row_delays_no_other_conversation(
    api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.base.group_commit.SLOW_SECONDS", 0.05)
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    await api.send(bob, dave)
    with deployments.mongo.start_session() as session:
        session.start_transaction()
        api.database["conversations"].update_one({"_id": group}, {"$set": {"name": "New"}}, session=session)
        held_send = asyncio.create_task(api.send(alice, group, "delayed"))
        await asyncio.sleep(0.2)
        await asyncio.wait_for(gather_all(*(api.send(bob, dave) for _ in range(3))), TIMEOUT_SECONDS)
        assert not held_send.done()
        await asyncio.to_thread(session.abort_transaction)
    assert (await held_send)["message"]["seq"] == 2
    assert [message["content"] for message in await api.history(carol, group)] == ["hello", "delayed"]
