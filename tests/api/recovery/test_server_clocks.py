"""Servers whose clocks disagree, or were set back: nothing that changed is missed, and nothing of a user's goes back."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from tests.api.client import SYNC, Api, Json, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.clock import START_MS, ManualClock

HOUR_MS = 3_600_000


async def sync(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


async def renew(*processes: Api) -> None:
    """What every process does each 15 seconds."""
    for process in processes:
        store = process.services.app.store
        await store.deployment.worker_numbers.lease(store.ids, 0)


async def pair(
    stack: AsyncExitStack, open_api: OpenApi, place: str, first: str
) -> tuple[Api, Api, tuple[ManualClock, ManualClock]]:
    """A process with a fast clock and one with a slow one, opened in either order, and their clocks."""
    clocks = {"fast": ManualClock(START_MS + HOUR_MS), "slow": ManualClock(START_MS)}
    order = sorted(clocks, key=lambda name: name != first)
    opened = {name: await stack.enter_async_context(open_api(place, clocks[name])) for name in order}
    await renew(*opened.values())
    return opened["fast"], opened["slow"], (clocks["fast"], clocks["slow"])


@pytest.mark.parametrize("first", ["fast", "slow"])
async def test_what_the_slow_one_did_after_the_cache_was_lost_is_told_since_a_cursor_of_the_fast_one(
    open_api: OpenApi, deployments: Deployments, first: str
) -> None:
    async with AsyncExitStack() as stack:
        fast, slow, _ = await pair(stack, open_api, f"apart {first}", first)
        alice, bob, carol = await fast.create_users("alice", "bob", "carol")
        await fast.send(bob, alice)
        cursor = (await sync(fast, alice))["cursor"]
        await fast.wait_until_idle()
        deployments.flush_redis(f"apart {first}")
        await slow.send(carol, alice)
        await slow.wait_until_idle()
        for process in (fast, slow):
            delta = await sync(process, alice, cursor)
            assert delta["reset"] or carol in {session["conversation"]["title"] for session in delta["sessions"]}


@pytest.mark.parametrize("first", ["fast", "slow"])
async def test_a_session_moves_on_with_every_message_of_either(
    open_api: OpenApi, deployments: Deployments, first: str
) -> None:
    async with AsyncExitStack() as stack:
        fast, slow, clocks = await pair(stack, open_api, f"moves {first}", first)
        alice, bob = await fast.create_users("alice", "bob")
        ticks, stamps = list[int](), list[int]()
        for process in (fast, slow, fast, slow):
            for clock in clocks:
                clock.ms += 20
            sent = await process.send(bob, alice)
            await process.wait_until_idle()
            stamps.append(sent["message"]["createdAt"])
            deployments.flush_redis(f"moves {first}")
            session = await process.session(alice, private_id(alice, bob))
            assert session is not None
            ticks.append(session["activeTs"])
            deployments.flush_redis(f"moves {first}")
        assert ticks == sorted(set(ticks))
        assert stamps == sorted(stamps)


async def test_a_machine_that_comes_back_with_its_clock_set_back_hides_nothing(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("set back", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        clock.ms += HOUR_MS
        await renew(api)
        sent = await api.send(bob, alice)
        before = await sync(api, alice)
        await api.wait_until_idle()
    deployments.flush_redis("set back")
    async with open_api("set back", ManualClock()) as api:
        last = await api.send(carol, alice)
        await api.send(bob, alice)
        delta = await sync(api, alice, before["cursor"])
        changed = {session["conversation"]["title"]: session for session in delta["sessions"]}
        assert set(changed) == {bob, carol} and delta["reset"] is False
        assert changed[bob]["activeTs"] > before["sessions"][0]["activeTs"]
        assert last["message"]["createdAt"] >= sent["message"]["createdAt"]
