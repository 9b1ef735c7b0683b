"""Appends events that change no session to the logs of users, and sends them to their devices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from store.base.ids import UserId
from store.sessions.apply_messages import FanoutCalls
from store.sessions.apply_results import ApplyResult
from store.sessions.changes import EventOnly, logged_change
from store.store import Store
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.outgoing_events import OutgoingEvents

_USERS_AT_ONCE = 500


async def append_event(
    store: Store, users: Sequence[UserId], entry: str, *, may_repeat: bool = False
) -> list[tuple[UserId, ApplyResult]]:
    """Append an event to the logs of users. One round trip to Redis that no request waits for.

    Args:
        store: The repositories.
        users: The users.
        entry: The event's log entry.
        may_repeat: True if another server may have appended it. Users who have it do not get it again.

    Returns:
        The users whose state is cached, with the results.

    Raises:
        Unreachable: Some of the users may have got the event.
    """
    if not users:
        return []
    now_ms = store.clock.now_ms()
    calls = FanoutCalls(store.cache, now_ms)
    result = calls.add_change(logged_change(EventOnly(may_repeat), now_ms, entry), users)
    await calls.run(store.cache.run_in_background)
    return result.others


async def publish_event(
    store: Store,
    bus: Bus,
    users: Sequence[UserId],
    entry: str,
    read_event: Callable[[], Awaitable[Event]],
    *,
    may_repeat: Callable[[], bool] = lambda: False,
) -> None:
    """Append an event to the logs of users, 500 at a time, and send it to their devices.

    Args:
        store: The repositories.
        bus: Takes the event to other servers.
        users: The users.
        entry: The event's log entry.
        read_event: Returns the event with the present state. Called after the tick, so that of two events, in any
            order, the last one shows the present state (ADR 11).
        may_repeat: Returns whether another server may have appended it by then, and died before it sent the event.

    Raises:
        StoreError: Some of the users may have got the event.
    """
    for start in range(0, len(users), _USERS_AT_ONCE):
        is_repeated = may_repeat()
        outcomes = await append_event(store, users[start : start + _USERS_AT_ONCE], entry, may_repeat=is_repeated)
        outgoing = OutgoingEvents()
        outgoing.add(await read_event(), outcomes)
        if is_repeated:
            # Hubs compare their users' clocks.
            outgoing.add_positions([pair for pair in outcomes if not pair[1].changed])
        bus.send(outgoing)
