"""What a session was shown to have moved at last, it never moved before, though the cache that knew it is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import UserId
from store.mongo.collections import SESSIONS as SESSION_ROWS
from tests.api.client import private_id
from tests.api.conftest import Deployments, OpenApi
from tests.clock import ManualClock


async def test_what_came_while_a_state_was_loaded_stays_where_it_was_shown(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with open_api("loading", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        for sender in (bob, carol):
            await api.send(sender, alice)
        # What alice does takes her clock ahead of the time of day.
        for priority in range(1, 20):
            await api.pin(alice, private_id(alice, carol), priority)
        await api.wait_until_idle()
        deployments.evict_user_state("loading", alice)
        mongo = api.services.app.store.mongo
        find, begun, go_on = mongo.find, asyncio.Event(), asyncio.Event()

        async def slow(collection: str, *query: Any, **options: Any) -> Any:
            found = await find(collection, *query, **options)
            if collection == SESSION_ROWS:
                begun.set()
                await go_on.wait()
            return found

        monkeypatch.setattr(mongo, "find", slow)
        loading = asyncio.create_task(api.services.app.store.sessions.load(UserId(alice)))
        await begun.wait()
        await api.send(bob, alice)
        go_on.set()
        await loading
        shown = await api.own_session(alice, private_id(alice, bob))
        assert shown["unreadCount"] == 2
        await api.wait_until_idle()
        deployments.evict_user_state("loading", alice)
        await api.advance_days(clock, 1)
        assert (await api.own_session(alice, private_id(alice, bob)))["activeTs"] >= shown["activeTs"]


async def test_what_came_to_somebody_ahead_of_the_time_of_day_stays_where_it_was_shown(
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
        shown = await api.own_session(alice, private_id(alice, bob))
        assert shown["activeTs"] > shown["writeTs"]
        await asyncio.gather(*api.services.app.bus._sending)
        await api.advance_days(clock, 1)
        deployments.evict_user_state("ahead", alice)
        assert (await api.own_session(alice, private_id(alice, bob)))["activeTs"] >= shown["activeTs"]


async def test_what_moved_just_before_a_server_died_stays_where_it_was_shown(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server had no time left to keep in MongoDB how far the session had moved."""
    async with open_api("died", ManualClock()) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        for sender in (bob, carol):
            await api.send(sender, alice)
        await api.wait_until_idle()
        for priority in range(1, 20):
            await api.pin(alice, private_id(alice, carol), priority)

        async def kept_nowhere(_: object) -> None:
            return

        monkeypatch.setattr(api.services.app.store.session_rows, "keep_ticks", kept_nowhere)
        await api.send(bob, alice)
        shown = await api.own_session(alice, private_id(alice, bob))
        await api.wait_until_idle()
        deployments.evict_user_state("died", alice)
        assert (await api.own_session(alice, private_id(alice, bob)))["activeTs"] >= shown["activeTs"]
