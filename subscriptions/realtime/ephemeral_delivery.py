"""Delivery of events without a tick to the connected members of a conversation. Nothing is stored or repeated."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog

from store.base.errors import StoreError
from store.base.ids import UserId, parse_thread
from store.base.tasks import end_tasks
from store.base.workspace_ids import is_in_workspace
from store.conversations.typing_store import Routes
from store.store import Store
from subscriptions.realtime.bus import ALL_SERVERS, Bus
from subscriptions.realtime.events.base import EphemeralEvent
from subscriptions.realtime.events.registry import EPHEMERAL_KINDS
from subscriptions.realtime.user_hub import UserHub

_log = structlog.get_logger()

MAX_NAMED = 200
"""Largest number of other members that frames list by name: each server gets the members that are connected to it.

In larger conversations all servers get one frame with the version of the membership, and look the members up.
"""

_ANY_SEQ = 1 << 53
"""Later than any message, to get the present membership."""


class EphemeralDelivery:
    """Sends ephemeral events of this process's users, and delivers those from the bus."""

    def __init__(self, store: Store, hub: UserHub, bus: Bus) -> None:
        self._store = store
        self._hub = hub
        self._bus = bus
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        for kind in EPHEMERAL_KINDS:
            bus.on_frame(kind.frame, partial(self._receive, kind))

    async def close(self) -> None:
        """Stop delivering."""
        await end_tasks(self._tasks)

    async def list_others(self, event: EphemeralEvent, version: str) -> list[UserId]:
        """Return the members of the event's conversation without its user.

        Of a thread: its followers and, unless it is in a channel, those who look at it.

        `version`: of the membership; "" for a private conversation or a thread. No round trip if this process knows
        that version. Raises Unreachable.
        """
        conversation = event.conversation
        members = await self._store.conversations.list_recipients(conversation, version, _ANY_SEQ)
        if parse_thread(conversation) is not None:
            watchers = await self._store.watchers.list(conversation) if not is_in_workspace(conversation) else ()
            users = list(dict.fromkeys((*members, *watchers)))
            members = await self._store.thread_recipients.select_viewers(conversation, users) if users else ()
        return [member for member in members if member != event.user]

    def is_large(self, others: Sequence[UserId]) -> bool:
        """Return whether there are too many members to name them."""
        return len(others) > MAX_NAMED

    def send(self, event: EphemeralEvent, others: Sequence[UserId], routes: Routes) -> None:
        """Send an event to few members by their routes."""
        by_server = self._group_by_server(others, routes)
        self._bus.send_frames(event.frame, {server: _body(event, users, None) for server, users in by_server.items()})

    def send_to_all_servers(self, event: EphemeralEvent, version: str) -> None:
        """Send an event to the members of a large group, by the version of its membership."""
        self._bus.send_frames(event.frame, {ALL_SERVERS: _body(event, None, version)})

    def _group_by_server(self, others: Sequence[UserId], routes: Routes) -> dict[str, list[UserId]]:
        """Return the connected members by server. For this server the hub is asked instead of the routes."""
        by_server: defaultdict[str, list[UserId]] = defaultdict(list)
        for other in others:
            for server in routes.get(other, ()):
                if server != self._hub.server:
                    by_server[server].append(other)
            if self._hub.has_mailbox(other):
                by_server[self._hub.server].append(other)
        return by_server

    def _receive(self, kind: type[EphemeralEvent], body: Any) -> None:
        *values, users, version = body[:5]
        event = kind.decode(values)
        if users is not None:
            self._hub.deliver_ephemeral(users, event)
            return
        task = asyncio.create_task(self._deliver_to_members(event, version))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver_to_members(self, event: EphemeralEvent, version: str) -> None:
        try:
            # One after the other, so that only the first one reads a membership that is not known yet.
            async with self._one_at_a_time:
                others = await self.list_others(event, version)
        except StoreError as error:
            _log.warning("ephemeral_event_dropped", conversation=event.conversation, reason=str(error))
            return
        self._hub.deliver_ephemeral(others, event)


def _body(event: EphemeralEvent, users: Sequence[UserId] | None, version: str | None) -> list[Any]:
    return [*event.encode(), users, version]
