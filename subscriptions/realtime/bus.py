"""The bus: what servers tell each other, over Redis publish/subscribe. It may lose and repeat; the hub's chains make up for it.

A frame is an object with one of: `events`, each with its body once and the recipients beside it; `users`, whose profile changed;
`granted`, to whom a lock was handed; or a kind that somebody else has a say in (`Bus.on`). Scripts publish some of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId
from store.base.tasks import end_tasks
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.sessions.apply_messages import FanoutResult, Place
from store.sessions.apply_results import ApplyResult
from store.sessions.session_rows import SessionRows, Tick
from subscriptions.realtime.events import Event, MessageCreated, event_fields, event_from
from subscriptions.realtime.hub import Hub
from subscriptions.realtime.server_calls import Calls
from subscriptions.transport.engine import Json

_log = structlog.get_logger()

_RECENT = 64
_LOOK_SECONDS = 1.0
"""How often a server that hears nothing looks whether it still listens at the right node."""

EVERYWHERE = "*"
"""All servers, where one is named."""


class OutgoingEvents:
    """Events on their way out, gathered by the server that holds the recipients' connections."""

    def __init__(self) -> None:
        self._by_server: defaultdict[str, list[tuple[Event | None, list[Place]]]] = defaultdict(list)
        self.ticks: list[Tick] = []

    def add(
        self,
        event: Event | None,
        outcomes: Sequence[tuple[UserId, ApplyResult]],
        *,
        told_at: int | Mapping[ConversationId, int] = 0,
        own_times: bool = False,
    ) -> None:
        """An event for all whose state it changed. None: word that their clocks moved, and nothing to see.

        told_at: the times of the change that MongoDB holds. Ticks that it could not tell from them are kept there, lest a
        lost cache turns them back. own_times: writeTs is one of them.
        """
        changed = [pair for pair in outcomes if pair[1].changed]
        self._address(event, changed)
        for user, applied in changed:
            self.ticks += _untold(user, applied, told_at, own_times)

    def add_message(self, event: MessageCreated, shown: FanoutResult, at_ms: int) -> None:
        """A message for all to whose states it was shown."""
        for user, outcome in shown.others:
            if outcome.changed:
                for server in outcome.routes:
                    shown.place(server, (user, outcome.epoch, outcome.tick, outcome.previous))
                self.ticks += _untold(user, outcome, at_ms, False)
        self.ticks += shown.ticks
        for server, places in shown.places.items():
            self._by_server[server].append((event, places))

    def remind(self, outcomes: Iterable[tuple[UserId, ApplyResult]]) -> None:
        """Word of where users' clocks stand."""
        self._address(None, outcomes)

    def _address(self, event: Event | None, outcomes: Iterable[tuple[UserId, ApplyResult]]) -> None:
        here: defaultdict[str, list[Place]] = defaultdict(list)
        for user, applied in outcomes:
            for server in applied.routes:
                here[server].append((user, applied.epoch, applied.tick, applied.previous))
        for server, places in here.items():
            self._by_server[server].append((event, places))

    def items(self) -> Iterable[tuple[str, list[tuple[Event | None, list[Place]]]]]:
        """What goes to each server."""
        return self._by_server.items()


def _untold(
    user: UserId, applied: ApplyResult, told_at: int | Mapping[ConversationId, int], own_times: bool
) -> Iterable[Tick]:
    inside: dict[str | None, int] = {}
    for session in applied.sessions:
        at = session.active_ts
        if at <= applied.previous:
            continue
        inside[session.sub_biz] = at
        if session.is_gateway and at == inside.get(session.conversation.removeprefix("b_"), at) + 1:
            # That is where loading puts it too.
            continue
        told = told_at if isinstance(told_at, int) else told_at.get(session.conversation)
        if session.frozen or (own_times and session.write_ts != told):
            # Loaded anew, its times are its own: its conversation's go on without it.
            yield Tick(user, session.conversation, at, session.write_ts)
        elif at != told:
            yield Tick(user, session.conversation, at)


class Bus:
    """This server's end of the bus."""

    def __init__(
        self,
        cache: Cache,
        keys: Keys,
        rows: SessionRows,
        hub: Hub,
        forget_users: Callable[[Iterable[UserId] | None], None],
        granted: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._keys = keys
        self._rows = rows
        self._hub = hub
        self._forget_users = forget_users
        self._granted = granted
        self._takers: dict[str, Callable[[Any], None]] = {}
        self._fresh: list[Callable[[], None]] = []
        self.calls = Calls(hub.server, self._publish)
        self.on("call", self.calls.receive)
        self._recent: OrderedDict[bytes, Event] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()

    def on(self, kind: str, take: Callable[[Any], None]) -> None:
        """`take` is given the body of each frame of a kind, from now on. It must not wait for anything."""
        self._takers[kind] = take

    def on_fresh(self, call: Callable[[], None]) -> None:
        """`call` is made whenever this server begins to listen: whatever was said before is lost. It must not wait for anything."""
        self._fresh.append(call)

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
        await self.calls.close()

    def send(self, parcel: OutgoingEvents, also: Sequence[Call] = ()) -> None:
        """Hands over what is for this server, and sends the rest, one frame for each other server, after this returned. Other
        calls are made in the same round trip, after the ticks are kept."""
        frames = self._frames(parcel)
        if frames or also or parcel.ticks:
            task = asyncio.create_task(self._send(frames, parcel.ticks, also))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    @property
    def under_way(self) -> int:
        """Round trips after an answer that are not done yet."""
        return len(self._sending)

    def tell(self, kind: str, bodies: Mapping[str, Any]) -> None:
        """Gives servers (EVERYWHERE: all of them, this one as any other) a frame of a kind: this server's own at once, what
        goes to others after this returned. What can't be sent is lost."""
        frames = []
        for server, body in bodies.items():
            if server == self._hub.server:
                self._takers[kind](body)
            else:
                frames.append(self._told(server, orjson.dumps({kind: body})))
        self.send(OutgoingEvents(), frames)

    async def _send(self, frames: Sequence[Call], ticks: Sequence[Tick], also: Sequence[Call]) -> None:
        try:
            if frames and ticks:
                await self._cache.run_aside(frames)
                frames = ()
            await self._rows.keep_ticks(ticks)
            if frames or also:
                await self._cache.run_aside([*frames, *also])
        except StoreError as error:
            # Chains show what did not arrive; what stays in the outbox is finished later.
            _log.warning("not all could be sent to other servers", reason=str(error))

    def _frames(self, parcel: OutgoingEvents) -> list[Call]:
        calls = []
        for server, events in parcel.items():
            if server == self._hub.server:
                for event, recipients in events:
                    for user, epoch, tick, previous in recipients:
                        self._hub.receive(user, epoch, tick, previous, event)
            else:
                body = [[event_fields(event) if event else None, recipients] for event, recipients in events]
                calls.append(self._told(server, orjson.dumps({"events": body})))
        return calls

    def _told(self, server: str, frame: bytes) -> Call:
        if server == EVERYWHERE:
            return Call("PUBLISH", (), (self._keys.broadcast(), frame))
        return self._cache.publish(self._keys.channel(server), frame)

    async def _publish(self, server: str, frame: Json) -> int:
        return int(await self._cache.one(self._told(server, orjson.dumps(frame))))

    async def announce_users(self, users: Iterable[UserId]) -> None:
        """Tells every server that these users' profiles changed."""
        await self._cache.one(Call("PUBLISH", (), (self._keys.broadcast(), orjson.dumps({"users": list(users)}))))

    async def _listen(self) -> None:
        pause, told = 0.05, False
        while True:
            try:
                await self._listen_once()
            except (RedisError, OSError, StoreError) as error:
                # Once, or again where there was somebody to listen to meanwhile: they may be away for hours.
                if self._listening.is_set() or not told:
                    _log.warning("lost the other servers", reason=str(error))
                told = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)
            if self._listening.is_set():
                pause = 0.05
                self._listening.clear()

    async def _listen_once(self) -> None:
        own = self._keys.channel(self._hub.server)
        url = await self._cache.url_of(own)
        # Its own client: a blocking read must not time out, and must not be retried behind our back.
        client: Any = Redis.from_url(url, socket_timeout=None, retry=Retry(NoBackoff(), 0))
        pubsub = client.pubsub()
        try:
            if self._cache.is_cluster:
                # What servers say comes by the node that holds the channel; what scripts say, from wherever they run, by all.
                await pubsub.ssubscribe(own)
            await pubsub.subscribe(own, self._keys.broadcast())
            while True:
                message = await pubsub.get_message(timeout=_LOOK_SECONDS if self._cache.is_cluster else None)
                if message is None:
                    if not self._cache.is_at(own, url):
                        raise RedisConnectionError("another node holds the channel")
                elif message["type"] == "sunsubscribe":
                    raise RedisConnectionError("the channel has moved")
                elif message["type"] in ("subscribe", "ssubscribe"):
                    # A fresh subscription: whatever was said before it is lost.
                    self._listening.set()
                    self._forget_users(None)
                    self._hub.resync()
                    for call in self._fresh:
                        call()
                elif message["type"] in ("message", "smessage"):
                    self._take(message["data"])
        finally:
            await pubsub.aclose()
            await client.aclose()

    def _event_from(self, fields: dict[str, Any]) -> Event:
        """The same object for all parts in which an event is sent to the members of a large group, several at a time."""
        key = orjson.dumps(fields)
        event = self._recent.get(key)
        if event is None:
            event = self._recent[key] = event_from(fields)
            if len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
        return event

    def _take(self, data: bytes) -> None:
        try:
            match orjson.loads(data):
                case {"users": users}:
                    self._forget_users([UserId(user) for user in users])
                case {"granted": owner}:
                    self._granted(owner)
                case {"events": events}:
                    for fields, recipients in events:
                        event = self._event_from(fields) if fields else None
                        for user, epoch, tick, previous in recipients:
                            self._hub.receive(UserId(user), epoch, tick, previous, event)
                case dict(frame):
                    for kind in frame.keys() & self._takers.keys():
                        self._takers[kind](frame[kind])
        except Exception:
            # Of whatever kind: past here it would end the listening, for good.
            _log.exception("a frame from another server was not understood")
