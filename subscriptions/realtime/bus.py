"""The bus: frames between servers, over Redis publish/subscribe. It may lose, repeat and reorder them.

A frame is a JSON object with one field: `events`, each event once with its recipients; `users`, whose profiles changed;
`granted`, the owner who gets a lock next; or a kind that another module handles (`Bus.on_frame`). Scripts publish some
frames too. If frames with events get lost, the hub reads the events from the log.

Unknown kinds of frames, and unknown values at the end of lists, are ignored: servers of a later version may send them
(ADR 104). The list of a recipient is the exception: it must not get longer.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.sessions.apply_messages import EventRecipient
from store.sessions.session_rows import SessionRows, Tick
from subscriptions.realtime.events.base import Event, Fields
from subscriptions.realtime.events.registry import decode_event
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.server_calls import ServerCalls
from subscriptions.realtime.server_silence import ServerSilence
from subscriptions.realtime.user_hub import UserHub

_log = structlog.get_logger()

_RECENT_EVENTS = 64

_RECIPIENTS_PER_TURN = 500
"""Recipients that are served before other tasks of the event loop run: some milliseconds."""

_OPEN_SECONDS = 1.0
_CHECK_NODE_SECONDS = 1.0
"""Interval at which a server that receives nothing checks that it still listens at the right node."""

_PAUSE_SECONDS = (0.05, 1.0)
"""The first and the longest pause before listening again."""

ALL_SERVERS = "*"
"""Names all servers, in place of the name of one."""


class _EventFrame(NamedTuple):
    """A frame for another server, with the events in it and their recipients."""

    server: str
    call: Call
    events: Sequence[tuple[Event | None, Sequence[EventRecipient]]]

    @property
    def users(self) -> set[UserId]:
        """All recipients."""
        return {recipient[0] for _, recipients in self.events for recipient in recipients}


class Bus:
    """This server's connection to the bus."""

    def __init__(
        self,
        cache: Cache,
        keys: Keys,
        rows: SessionRows,
        hub: UserHub,
        forget_users: Callable[[Iterable[UserId] | None], None],
        wake_waiter: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._keys = keys
        self._rows = rows
        self._hub = hub
        self._forget_users = forget_users
        self._wake_waiter = wake_waiter
        self._handlers: dict[str, Callable[[Any], None]] = {}
        self._on_subscribed: list[Callable[[], None]] = []
        self._on_users: list[Callable[[Collection[UserId] | None], None]] = []
        self.calls = ServerCalls(hub.server, self._publish)
        self.on_frame("call", self.calls.receive)
        self._recent: OrderedDict[bytes, Event] = OrderedDict()
        self._undelivered: deque[tuple[Event | None, Sequence[EventRecipient]]] = deque()
        """Events for the hub that wait for the next turn of the event loop."""
        self._served = 0
        """Recipients since the listener has let other tasks run."""
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self._silence = ServerSilence()

    def on_frame(self, kind: str, handle: Callable[[Any], None]) -> None:
        """Call `handle` with the body of each frame of a kind. It must not block."""
        self._handlers[kind] = handle

    def on_subscribed(self, call: Callable[[], None]) -> None:
        """Make `call` each time that this server begins to listen: earlier frames are lost. It must not block."""
        self._on_subscribed.append(call)

    def on_users(self, call: Callable[[Collection[UserId] | None], None]) -> None:
        """Make `call` with users whose profiles have changed, after cached ones were dropped. It must not block.

        None: the profiles of all users may have changed.
        """
        self._on_users.append(call)

    async def open(self) -> None:
        """Begin to listen. Return when Redis has confirmed it, or after a second; retries continue after that."""
        self._task = asyncio.create_task(self._listen())
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await self._listening.wait()
        except TimeoutError:
            _log.warning("bus_not_listening_yet")

    async def close(self) -> None:
        """Finish sending, then stop listening."""
        await asyncio.gather(*self._sending, return_exceptions=True)
        if self._task is not None:
            await end_tasks([self._task])
        await self.calls.close()

    def send(self, outgoing: OutgoingEvents, calls: Sequence[Call] = ()) -> None:
        """Deliver events to this process at once, and publish one frame for each other server after this returned.

        A large batch is delivered in several turns of the event loop. Ticks are stored in the same step. Then `calls`
        are made, in one round trip with the frames if no ticks are stored.
        """
        frames = self._deliver(outgoing)
        if frames or calls or outgoing.ticks:
            task = asyncio.create_task(self._send(frames, outgoing.ticks, calls))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    @property
    def pending_sends(self) -> int:
        """The number of sends that are not complete."""
        return len(self._sending) + len(self._undelivered)

    def send_frames(self, kind: str, bodies: Mapping[str, Any]) -> None:
        """Send a frame of a kind to each named server, or to ALL_SERVERS. At most once: failures are not retried.

        This server's own frame is handled at once, unless it is for all servers. The others are sent after this has
        returned.
        """
        frames = []
        for server, body in bodies.items():
            if server == self._hub.server:
                self._handlers[kind](body)
            else:
                frames.append(self._frame(server, orjson.dumps({kind: body})))
        self.send(OutgoingEvents(), frames)

    async def publish_frames(self, kind: str, bodies: Mapping[str, Any]) -> None:
        """Send a frame of a kind to each named server, which is not this one. Raises Unreachable: some may not have it.

        One round trip.
        """
        await self._cache.run_in_background(
            [self._frame(server, orjson.dumps({kind: body})) for server, body in bodies.items()]
        )

    async def announce_users(self, users: Iterable[UserId]) -> None:
        """Notify all servers that the profiles of users changed. Raises Unreachable."""
        await announce_users(self._cache, users)

    async def notify_all(self, kind: str, body: Any) -> None:
        """Send a frame of a kind to all servers, this one included. Raises Unreachable."""
        await self._cache.one(self._frame(ALL_SERVERS, orjson.dumps({kind: body})))

    async def _send(self, frames: Sequence[_EventFrame], ticks: Sequence[Tick], calls: Sequence[Call]) -> None:
        publish = [frame.call for frame in frames]
        try:
            try:
                if publish and ticks:
                    await self._end_routes(frames, await self._cache.run_in_background(publish))
                    publish = []
            finally:
                # Clients may have seen them, whether frames can be sent or not.
                await self._rows.keep_ticks(ticks)
            if publish or calls:
                answers = await self._cache.run_in_background([*publish, *calls])
                await self._end_routes(frames[: len(publish)], answers)
        except StoreError as error:
            # Hubs find events that did not arrive; entries that stay in the outbox are finished later.
            _log.warning("bus_send_failed", reason=str(error))

    async def _end_routes(self, frames: Sequence[_EventFrame], receivers: Sequence[int]) -> None:
        """Remove the routes that led frames to a server that does not listen any more."""
        now = time.monotonic()
        for frame, count in zip(frames, receivers, strict=False):
            if self._counts_all(frame.call) and self._silence.has_ended(frame.server, count, now):
                await self._hub.remove_routes(frame.users, frame.server)

    def _deliver(self, outgoing: OutgoingEvents) -> list[_EventFrame]:
        """Hand the events for this process to the hub. Return the frames for other servers."""
        frames = []
        for server, events in outgoing.items():
            if server == self._hub.server:
                self._hand_to_hub(events)
            else:
                body = [[event.encode() if event else None, recipients] for event, recipients in events]
                frames.append(_EventFrame(server, self._frame(server, orjson.dumps({"events": body})), events))
        return frames

    def _hand_to_hub(self, events: Iterable[tuple[Event | None, Sequence[EventRecipient]]]) -> None:
        """Hand events to the hub in order: those of one turn at once, the others after other tasks have run."""
        is_waiting = bool(self._undelivered)
        self._undelivered.extend(events)
        if not is_waiting:
            self._deliver_one_turn()

    def _deliver_one_turn(self) -> None:
        served, undelivered = 0, self._undelivered
        while undelivered and served < _RECIPIENTS_PER_TURN:
            event, recipients = undelivered[0]
            try:
                self._hub.receive(event, recipients)
            except Exception:
                _log.exception("event_not_delivered")
            # It stays first meanwhile, so that an event that is sent during this waits for its turn.
            undelivered.popleft()
            served += len(recipients)
        self._served += served
        if undelivered:
            asyncio.get_running_loop().call_soon(self._deliver_one_turn)

    def _frame(self, server: str, frame: bytes) -> Call:
        if server == ALL_SERVERS:
            return Call("PUBLISH", (), (self._keys.broadcast(), frame))
        return self._cache.publish_call(self._keys.channel(server), frame)

    async def _publish(self, server: str, frame: dict[str, Any]) -> int:
        call = self._frame(server, orjson.dumps(frame))
        count = int(await self._cache.one(call))
        return count if self._counts_all(call) else max(count, 1)

    def _counts_all(self, publish: Call) -> bool:
        """Return whether the answer to a PUBLISH or SPUBLISH counts all receivers, not only those at one node."""
        return publish.name == "SPUBLISH" or not self._cache.is_cluster

    async def _listen(self) -> None:
        """Listen until the process ends. Failures are logged once until it has listened again."""
        first_pause, longest_pause = _PAUSE_SECONDS
        pause, is_logged = first_pause, False
        while True:
            try:
                await self._listen_once()
            except (RedisError, OSError, StoreError) as error:
                if self._listening.is_set() or not is_logged:
                    _log.warning("bus_lost", reason=str(error))
                is_logged = True
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest_pause)
            if self._listening.is_set():
                pause = first_pause
                self._listening.clear()

    async def _listen_once(self) -> None:
        own = self._keys.channel(self._hub.server)
        url = await self._cache.find_url(own)
        # A client of its own: its blocking read must not time out, and the client must not retry by itself.
        client: Any = Redis.from_url(url, socket_timeout=None, retry=Retry(NoBackoff(), 0))
        pubsub = client.pubsub()
        try:
            if self._cache.is_cluster and not self._cache.is_away(own):
                # Servers publish at the node that holds the channel, scripts at any node.
                await pubsub.ssubscribe(own)
            await pubsub.subscribe(own, self._keys.broadcast())
            while True:
                message = await pubsub.get_message(timeout=_CHECK_NODE_SECONDS if self._cache.is_cluster else None)
                if message is None:
                    if not self._cache.is_owner(own, url):
                        raise RedisConnectionError("another node holds the channel")
                else:
                    self._handle(message)
                while self._undelivered or self._served >= _RECIPIENTS_PER_TURN:
                    # Frames that have arrived already are returned without a pause.
                    self._served = 0
                    await asyncio.sleep(0)
        finally:
            await pubsub.aclose()
            await client.aclose()

    def _handle(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "message" | "smessage":
                self._receive(message["data"])
            case "subscribe" | "ssubscribe":
                self._subscribed()
            case "sunsubscribe":
                raise RedisConnectionError("the channel has moved")

    def _subscribed(self) -> None:
        """Note that all earlier frames are lost."""
        self._listening.set()
        self._users_changed(None)
        self._hub.resync()
        for call in self._on_subscribed:
            call()

    def _users_changed(self, users: Collection[UserId] | None) -> None:
        self._forget_users(users)
        for call in self._on_users:
            call(users)

    def _receive(self, data: bytes) -> None:
        try:
            match orjson.loads(data):
                case {"users": users}:
                    self._users_changed([UserId(user) for user in users])
                case {"granted": owner}:
                    self._wake_waiter(owner)
                case {"events": events}:
                    decoded: list[tuple[Event | None, Sequence[EventRecipient]]] = []
                    try:
                        for fields, recipients, *_ in events:
                            decoded.append((self._decode(fields) if fields else None, recipients))
                    finally:
                        self._hand_to_hub(decoded)
                case dict(frame):
                    for kind in frame.keys() & self._handlers.keys():
                        self._handlers[kind](frame[kind])
        except Exception:
            # Catch everything: an exception would end the listening for ever.
            _log.exception("bus_frame_failed")

    def _decode(self, fields: Fields) -> Event | None:
        """Return the event, the same object for equal fields; None if its kind is not known.

        A large group gets an event in several frames. One object is executed once for all of them.
        """
        key = orjson.dumps(fields)
        event = self._recent.get(key)
        if event is None:
            event = decode_event(fields)
            if event is None:
                return None
            self._recent[key] = event
            if len(self._recent) > _RECENT_EVENTS:
                self._recent.popitem(last=False)
        return event


async def announce_users(cache: Cache, users: Iterable[UserId]) -> None:
    """Notify all servers that the profiles of users changed. Raises Unreachable."""
    frame = orjson.dumps({"users": list(users)})
    await cache.one(Call("PUBLISH", (), (cache.keys.broadcast(), frame)))
