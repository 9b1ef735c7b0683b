"""The bus: what servers tell each other, over Redis publish/subscribe. It may lose and repeat; the hub's chains make up for it.

A frame for one server carries events, each with its body once and the recipients beside it. A word for all servers
names users whose profile changed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import orjson
import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from store.cache import Cache, Call
from store.errors import StoreError
from store.ids import ConversationId, UserId
from store.keys import Keys
from store.sessions import Applied, SessionStore
from subscriptions.events import Event, event_fields, event_from
from subscriptions.hub import Hub
from subscriptions.tasks import end_tasks

_log = structlog.get_logger()

Recipient = tuple[UserId, str, int, int]
"""A user, and the event's place in the user's chain: epoch, tick, tick before."""


class Parcel:
    """Events on their way out, gathered by the server that holds the recipients' connections."""

    def __init__(self) -> None:
        self._by_server: defaultdict[str, list[tuple[Event | None, list[Recipient]]]] = defaultdict(list)
        self.ticks: list[tuple[UserId, ConversationId, int]] = []

    def add(self, event: Event | None, recipients: Iterable[tuple[UserId, Applied]]) -> None:
        """An event for all whose state it changed. Without an event: word of where their clocks stand."""
        here: defaultdict[str, list[Recipient]] = defaultdict(list)
        for user, applied in recipients:
            for server in applied.routes:
                here[server].append((user, applied.epoch, applied.tick, applied.previous))
        for server, places in here.items():
            self._by_server[server].append((event, places))

    def keep(self, outcomes: Iterable[tuple[UserId, Applied]], told_at: int) -> None:
        """Ticks that MongoDB can't tell from the time of the change itself are kept there, lest a lost cache turns them back."""
        self.ticks += [
            (user, applied.session.conversation, applied.tick)
            for user, applied in outcomes
            if applied.session is not None and applied.tick != told_at and applied.session.active_ts == applied.tick
        ]

    def items(self) -> Iterable[tuple[str, list[tuple[Event | None, list[Recipient]]]]]:
        """What goes to each server."""
        return self._by_server.items()


class Bus:
    """This server's end of the bus."""

    def __init__(
        self,
        cache: Cache,
        keys: Keys,
        sessions: SessionStore,
        hub: Hub,
        forget_users: Callable[[Iterable[UserId] | None], None],
    ) -> None:
        self._cache = cache
        self._keys = keys
        self._sessions = sessions
        self._hub = hub
        self._forget_users = forget_users
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begins to listen. Returns once Redis confirmed it, or after a second: it goes on trying."""
        self._task = asyncio.create_task(self._listen())
        try:
            async with asyncio.timeout(1):
                await self._listening.wait()
        except TimeoutError:
            _log.warning("not listening to other servers yet")

    async def close(self) -> None:
        """Waits for what is being sent, and stops listening."""
        await asyncio.gather(*self._sending, return_exceptions=True)
        if self._task is not None:
            await end_tasks([self._task])

    def send(self, parcel: Parcel, also: Sequence[Call] = ()) -> None:
        """Hands over what is for this server, and sends the rest, one frame for each other server, after this returned. Other
        calls are made in the same round trip, after the ticks are kept."""
        calls = [*self._frames(parcel), *also]
        if calls or parcel.ticks:
            task = asyncio.create_task(self._send(calls, parcel.ticks))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send(self, calls: Sequence[Call], ticks: Sequence[tuple[UserId, ConversationId, int]]) -> None:
        try:
            await self._sessions.keep_ticks(ticks)
            if calls:
                await self._cache.run_aside(calls)
        except StoreError as error:
            # Chains show what did not arrive; what stays in the outbox is finished later.
            _log.warning("not all could be sent to other servers", reason=str(error))

    def _frames(self, parcel: Parcel) -> list[Call]:
        calls = []
        for server, events in parcel.items():
            if server == self._hub.server:
                for event, recipients in events:
                    for user, epoch, tick, previous in recipients:
                        self._hub.receive(user, epoch, tick, previous, event)
            else:
                body = [[event_fields(event) if event else None, recipients] for event, recipients in events]
                calls.append(Call("PUBLISH", None, (self._keys.channel(server), orjson.dumps(body))))
        return calls

    async def announce_users(self, users: Iterable[UserId]) -> None:
        """Tells every server that these users' profiles changed."""
        await self._cache.one(Call("PUBLISH", None, (self._keys.broadcast(), orjson.dumps(list(users)))))

    async def _listen(self) -> None:
        pause = 0.05
        while True:
            try:
                await self._listen_once()
            except (RedisError, OSError) as error:
                _log.warning("lost the other servers", reason=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)
            if self._listening.is_set():
                pause = 0.05
                self._listening.clear()

    async def _listen_once(self) -> None:
        # Its own client: a blocking read must not time out, and must not be retried behind our back.
        client: Any = Redis.from_url(self._cache.url, socket_timeout=None, retry=Retry(NoBackoff(), 0))
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(self._keys.channel(self._hub.server), self._keys.broadcast())
            async for message in pubsub.listen():
                if message["type"] == "subscribe":
                    # A fresh subscription: whatever was said before it is lost.
                    self._listening.set()
                    self._forget_users(None)
                    self._hub.resync()
                elif message["type"] == "message":
                    self._take(message["channel"].decode(), message["data"])
        finally:
            await pubsub.aclose()
            await client.aclose()

    def _take(self, channel: str, data: bytes) -> None:
        try:
            body = orjson.loads(data)
            if channel == self._keys.broadcast():
                self._forget_users([UserId(user) for user in body])
                return
            for fields, recipients in body:
                event = event_from(fields) if fields else None
                for user, epoch, tick, previous in recipients:
                    self._hub.receive(UserId(user), epoch, tick, previous, event)
        except (ValueError, KeyError, TypeError):
            _log.exception("a frame from another server was not understood")
