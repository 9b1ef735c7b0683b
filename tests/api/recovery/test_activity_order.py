"""activeTs of a session never goes back, although the cache that knew it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import UserId
from store.mongo.collections import SESSIONS as SESSION_ROWS
from tests.api.client import private_id
from tests.api.conftest import Deployments, OpenApi
from tests.clock import ManualClock


async def test_a_message_during_a_load_keeps_its_tick_after_a_loss(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with open_api("loading", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        for sender in (bob, carol):
            await api.send(sender, alice)
        # alice's changes move her clock ahead of the time of day.
        for priority in range(1, 20):
            await api.pin(alice, private_id(alice, carol), priority)
        await api.wait_until_idle()
        deployments.evict_user_state("loading", alice)
        mongo = api.services.app.store.mongo
        find, has_begun, may_return = mongo.find, asyncio.Event(), asyncio.Event()

        async def delayed_find(collection: str, *query: Any, **options: Any) -> Any:
            rows = await find(collection, *query, **options)
            if collection == SESSION_ROWS:
                has_begun.set()
                await may_return.wait()
            return rows

        monkeypatch.setattr(mongo, "find", delayed_find)
        load = asyncio.create_task(api.services.app.store.sessions.load(UserId(alice)))
        await has_begun.wait()
        await api.send(bob, alice)
        may_return.set()
        await load
        session = await api.own_session(alice, private_id(alice, bob))
        assert session["unreadCount"] == 2
        await api.wait_until_idle()
        deployments.evict_user_state("loading", alice)
        await api.advance_days(clock, 1)
        assert (await api.own_session(alice, private_id(alice, bob)))["activeTs"] >= session["activeTs"]


async def test_a_clock_ahead_of_the_time_of_day_keeps_ticks_after_a_loss(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("ahead", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        for sender in (bob, carol):
            await api.send(sender, alice)
        for priority in range(1, 100):
            await api.pin(alice, private_id(alice, carol), priority)
        await api.send(bob, alice)
        session = await api.own_session(alice, private_id(alice, bob))
        assert session["activeTs"] > session["writeTs"]
        await asyncio.gather(*api.services.app.bus._sending)
        await api.advance_days(clock, 1)
        deployments.evict_user_state("ahead", alice)
        assert (await api.own_session(alice, private_id(alice, bob)))["activeTs"] >= session["activeTs"]


async def test_a_tick_that_was_not_stored_does_not_go_back_after_a_loss(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server had no time to write the tick of the session to MongoDB."""
    async with open_api("died", ManualClock()) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        for sender in (bob, carol):
            await api.send(sender, alice)
        await api.wait_until_idle()
        for priority in range(1, 20):
            await api.pin(alice, private_id(alice, carol), priority)

        async def do_not_store(_: object) -> None:
            return

        monkeypatch.setattr(api.services.app.store.session_rows, "keep_ticks", do_not_store)
        await api.send(bob, alice)
        session = await api.own_session(alice, private_id(alice, bob))
        await api.wait_until_idle()
        deployments.evict_user_state("died", alice)
        assert (await api.own_session(alice, private_id(alice, bob)))["activeTs"] >= session["activeTs"]
