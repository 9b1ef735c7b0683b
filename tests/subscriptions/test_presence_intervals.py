"""Quick changes of presence become few frames and few events, and the last change always has one."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from store.presence.presence_record import PresenceSetting
from tests.subscriptions.test_presence_hub import ANN, Screen, Server, clock, servers
from tests.waiting import wait_for

__all__ = ["clock", "servers"]


async def test_the_last_of_several_quick_changes_is_sent(servers: tuple[Server, Server]) -> None:
    one, two = servers
    publisher, loop, between = two.hub.publisher, asyncio.get_running_loop(), 3.0
    publisher.seconds_between = between
    screen = Screen(one.hub)
    await screen.watch.add([ANN])
    began = loop.time()
    for value in (PresenceSetting.DND, PresenceSetting.IDLE, PresenceSetting.DND, PresenceSetting.IDLE):
        await two.put(ANN)
        await two.set(ANN, value)
    await wait_for(lambda: screen.statuses[-1:] == ["IDLE"])
    # A frame is counted after it was sent, which may be after it arrived.
    await wait_for(lambda: publisher.frames >= 2 and publisher._task.done())  # type: ignore[union-attr]
    # There are more if this process pauses during the changes.
    assert publisher.frames <= 1 + (loop.time() - began) // between
    # A change that was undone within the time causes no frame.
    frames = publisher.frames
    await two.set(ANN, PresenceSetting.DND)
    await two.set(ANN, PresenceSetting.IDLE)
    is_within_the_time = loop.time() < publisher._sent_at[ANN] + between
    await wait_for(lambda: publisher._task.done())  # type: ignore[union-attr]
    assert publisher.frames == frames or not is_within_the_time


async def test_a_subscription_gets_few_events_and_always_the_last_state(servers: tuple[Server, Server]) -> None:
    one, _ = servers
    loop, between, waits = asyncio.get_running_loop(), 1.0, list[float]()
    one.hub.users.event_seconds = between
    await one.put(ANN)
    screen = Screen(one.hub)
    await screen.watch.add([ANN])
    for value in (PresenceSetting.DND, PresenceSetting.IDLE, PresenceSetting.DND):
        await asyncio.sleep(between)
        count, changed_at = len(screen.states), loop.time()
        await one.set(ANN, value)
        await wait_for(lambda count=count: len(screen.states) > count)
        waits.append(screen.times[-1] - changed_at)
    assert min(waits) < between / 2, "the first change after a while is shown at once"
    for value in (PresenceSetting.IDLE, PresenceSetting.ONLINE, PresenceSetting.IDLE):
        await one.set(ANN, value)
        await asyncio.sleep(0.01)
    # There are more than four events if this process pauses during the changes.
    await wait_for(lambda: len(screen.states) >= 4 and screen.statuses[-1] == "IDLE")
    assert all(later - earlier > 0.99 * between for earlier, later in pairwise(screen.times))
    # A change that was undone before its event is no event.
    count = len(screen.states)
    await one.set(ANN, PresenceSetting.DND)
    await one.set(ANN, PresenceSetting.IDLE)
    is_before_its_event = loop.time() < screen.times[-1] + between
    await asyncio.sleep(1.2 * between)
    assert screen.statuses[-1] == "IDLE"
    assert len(screen.states) == count or not is_before_its_event
