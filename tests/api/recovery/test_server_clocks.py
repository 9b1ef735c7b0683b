"""Servers whose clocks differ or were set back: no change is missed, and no user's clock goes back."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from tests.api.client import SYNC, Api, Json, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.clock import START_MS, ManualClock

HOUR_MS = 3_600_000


async def sync_sessions(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


async def renew_leases(*processes: Api) -> None:
    """Renew the leases, as every process does each 15 seconds."""
    for process in processes:
        store = process.services.app.store
        await store.deployment.worker_numbers.lease(store.ids, 0)


async def open_pair(
    stack: AsyncExitStack, open_api: OpenApi, deployment: str, first: str
) -> tuple[Api, Api, tuple[ManualClock, ManualClock]]:
    """Open a process with a fast clock and one with a slow clock, in either order.

    Returns:
        The fast process, the slow process, and their clocks.
    """
    clocks = {"fast": ManualClock(START_MS + HOUR_MS), "slow": ManualClock(START_MS)}
    order = sorted(clocks, key=lambda name: name != first)
    processes = {name: await stack.enter_async_context(open_api(deployment, clocks[name])) for name in order}
    await renew_leases(*processes.values())
    return processes["fast"], processes["slow"], (clocks["fast"], clocks["slow"])


@pytest.mark.parametrize("first", ["fast", "slow"])
async def test_changes_by_a_slow_server_after_a_loss_are_not_missed(
    open_api: OpenApi, deployments: Deployments, first: str
) -> None:
    async with AsyncExitStack() as stack:
        fast_process, slow_process, _ = await open_pair(stack, open_api, f"apart {first}", first)
        alice, bob, carol = await fast_process.create_users("alice", "bob", "carol")
        await fast_process.send(bob, alice)
        cursor = (await sync_sessions(fast_process, alice))["cursor"]
        await fast_process.wait_until_idle()
        deployments.flush_redis(f"apart {first}")
        await slow_process.send(carol, alice)
        await slow_process.wait_until_idle()
        for process in (fast_process, slow_process):
            delta = await sync_sessions(process, alice, cursor)
            assert delta["reset"] or carol in {session["conversation"]["title"] for session in delta["sessions"]}


@pytest.mark.parametrize("first", ["fast", "slow"])
async def test_a_session_moves_forward_with_messages_of_either_server(
    open_api: OpenApi, deployments: Deployments, first: str
) -> None:
    async with AsyncExitStack() as stack:
        fast_process, slow_process, clocks = await open_pair(stack, open_api, f"moves {first}", first)
        alice, bob = await fast_process.create_users("alice", "bob")
        ticks, created_at = list[int](), list[int]()
        for process in (fast_process, slow_process, fast_process, slow_process):
            for clock in clocks:
                clock.ms += 20
            sent = await process.send(bob, alice)
            await process.wait_until_idle()
            created_at.append(sent["message"]["createdAt"])
            deployments.flush_redis(f"moves {first}")
            session = await process.session(alice, private_id(alice, bob))
            assert session is not None
            ticks.append(session["activeTs"])
            deployments.flush_redis(f"moves {first}")
        assert ticks == sorted(set(ticks))
        assert created_at == sorted(created_at)


async def test_a_server_restarted_with_an_earlier_clock_hides_no_change(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("set back", clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        clock.ms += HOUR_MS
        await renew_leases(api)
        sent = await api.send(bob, alice)
        before = await sync_sessions(api, alice)
        await api.wait_until_idle()
    deployments.flush_redis("set back")
    async with open_api("set back", ManualClock()) as api:
        last = await api.send(carol, alice)
        await api.send(bob, alice)
        delta = await sync_sessions(api, alice, before["cursor"])
        changed = {session["conversation"]["title"]: session for session in delta["sessions"]}
        assert set(changed) == {bob, carol} and delta["reset"] is False
        assert changed[bob]["activeTs"] > before["sessions"][0]["activeTs"]
        assert last["message"]["createdAt"] >= sent["message"]["createdAt"]
