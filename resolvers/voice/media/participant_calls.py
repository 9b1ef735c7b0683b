"""Calls about participants that follow changes of voice states. They delay nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from resolvers.voice.media.livekit_api import LiveKitApi, MediaServerError
from resolvers.voice.media.rooms import MediaPermission
from store.base.tasks import end_tasks

_log = structlog.get_logger(__name__)

MOST_CALLS = 1_000
"""Calls about one room that wait."""

_MOST_ROOMS = 1_000
"""Rooms with calls that wait."""

_CLOSE_SECONDS = 2.0
"""Time for calls that still wait when the process stops."""


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of a participant. at_ms: tokens that were signed before do not count any more."""

    at_ms: int


Wanted = Removal | MediaPermission

_Room = dict[str, Wanted]


class ParticipantCalls:
    """Makes calls in the background: of each room one after the other, and of each participant only the newest.

    Calls of a room that fail, or are too many, are dropped. Then `on_failure` is called with the room, so that it is
    compared with the voice states as soon as LiveKit answers again.
    """

    def __init__(self, api: LiveKitApi, on_failure: Callable[[str], None]) -> None:
        self._api = api
        self._on_failure = on_failure
        self._rooms: dict[str, _Room] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def put(self, room: str, identity: str, wanted: Wanted) -> None:
        """Make a call about a participant soon, in place of one that waits. Returns at once."""
        waiting = self._rooms.get(room, {})
        is_full = len(waiting) >= MOST_CALLS and identity not in waiting
        if is_full or (room not in self._tasks and len(self._tasks) >= _MOST_ROOMS):
            _log.warning("livekit_call_dropped", room=room)
            self._on_failure(room)
            return
        self._rooms.setdefault(room, {})[identity] = wanted
        if room not in self._tasks:
            self._tasks[room] = asyncio.create_task(self._make(room))

    def withdraw_removal(self, room: str, identity: str) -> None:
        """Do not remove a participant after all, if that has not been done yet: it is about to join again."""
        if isinstance(self._rooms.get(room, {}).get(identity), Removal):
            del self._rooms[room][identity]

    async def settle(self) -> None:
        """Wait until no call waits."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks.values()))

    async def close(self) -> None:
        """Make the calls that wait, for up to two seconds, and stop."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks.values()), timeout=_CLOSE_SECONDS)
        await end_tasks(self._tasks.values())

    async def _make(self, room: str) -> None:
        try:
            while waiting := self._rooms.get(room):
                identity = next(iter(waiting))
                wanted = waiting.pop(identity)
                if isinstance(wanted, Removal):
                    await self._api.remove(room, identity, wanted.at_ms)
                else:
                    await self._api.set_permission(room, identity, wanted)
        except MediaServerError as error:
            _log.warning("livekit_call_failed", room=room, reason=str(error))
            self._on_failure(room)
        finally:
            # Together: the next call of the room begins a new task.
            self._rooms.pop(room, None)
            self._tasks.pop(room, None)
