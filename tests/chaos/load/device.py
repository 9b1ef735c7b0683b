"""A device of the load: npm's graphql-ws with a careful frontend behind it.

It keeps the cursor of the last applied event of each subscription. After any end of a connection it connects to any
server, after pauses that grow, and resumes each subscription from its cursor. On `reset` it starts over.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed

from tests.chaos.judges.history import Json
from tests.chaos.load.connection import RETRIED, AnswerLost, LoadConnection, RequestFailed, retry_delay
from tests.chaos.load.documents import LIVE_SESSIONS, live_messages
from tests.chaos.load.event_chain import EventChain
from tests.chaos.load.load_state import LoadState, is_of_threads, without_threads
from tests.chaos.load.mirror import Mirror
from tests.chaos.load.requester import FIRST_PAUSE, LONGEST_PAUSE, GaveUp, Requester
from tests.chaos.load.view import View


@dataclass
class DeviceSubscription:
    """A subscription that a device keeps across all its connections."""

    document: str
    listener: Callable[[Json], None]
    variables: Json = field(default_factory=dict)
    cursor: str | None = None
    id: str = ""
    caught_up: bool = False
    """True if it has caught up on this connection."""


class Device(Requester):
    """One of a user's devices."""

    def __init__(self, load: LoadState, user: str, number: int, seed: int) -> None:
        super().__init__(load, user, f"{user}/{number}", random.Random(seed))
        self.offline_until = 0.0
        self.reinstall = False
        """True if it forgets everything before it connects again."""
        self.mirror = Mirror()
        self._small_buffer = self.rng.random() < 0.5
        self._document = live_messages(delivery=self.rng.random() < 0.5)
        self._has_questions = asyncio.Event()
        self._asking = False
        self._tasks: list[asyncio.Task[None]] = []
        self._install(0)

    def _install(self, generation: int) -> None:
        self.reinstall = False
        self.view = View(self.user, self.load.tally, self.load.full, generation)
        self.chain = EventChain(self.name, self.user, self.load.tally, self.load.skew)
        self.one_chain = EventChain(f"{self.name} in one conversation", self.user, self.load.tally, self.load.skew)
        self.followed: str | None = None
        """The conversation that a subscription of its own follows."""
        self._follows_one = self.rng.random() < 0.3
        self._active: dict[str, int] = {}
        self._subscriptions = {
            "sync": DeviceSubscription(LIVE_SESSIONS, self._handle_sync),
            "live": DeviceSubscription(self._document, self._handle_live),
        }

    @property
    def is_unsettled(self) -> bool:
        """True while the device waits for a connection, for the end of a catch-up, or for answers."""
        caught_up = all(subscription.caught_up for subscription in self._subscriptions.values())
        return self.connection is None or not caught_up or self._asking or self.view.has_questions

    def describe_unsettled(self, fresh: dict[str, Json]) -> str:
        """Describe what the device waits for, with the sessions that a fresh client is shown."""
        late = [name for name, subscription in self._subscriptions.items() if not subscription.caught_up]
        if self.connection is None or late:
            return f"{'connected' if self.connection else 'not connected'}, not caught up with {late}"
        return f"asks for {self.view.describe_questions(fresh)}"

    def start(self) -> None:
        """Connect, and follow all events from now on."""
        self._tasks = [asyncio.create_task(self._guarded(work())) for work in (self._follow, self._answer_questions)]

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            self.load.tally.problem(f"{self.name} broke down: {traceback.format_exc()}")

    async def stop(self) -> None:
        """Disconnect for good."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- the connection

    async def _follow(self) -> None:
        pause, new = FIRST_PAUSE, True
        while True:
            await asyncio.sleep(max(0.0, self.offline_until - time.monotonic()))
            if self.reinstall:
                self._install(self.view.generation + 1)
                new = True
            if new and self.rng.random() < 0.5:
                await self._begin_with_snapshot()
            new = False
            server = self.load.servers.pick(self.rng)
            try:
                connection = await LoadConnection.open(
                    server, self.user, self.load.tally, small_buffer=self._small_buffer
                )
            except AnswerLost as lost:
                self.load.tally.closes[str(lost)] += 1
                await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            self.load.tally.notes["connections"] += 1
            try:
                end, reason = await self._use(connection)
            finally:
                self.connection = None
            self._note_end(connection, end, reason)
            await asyncio.sleep(retry_delay(reason) or pause * self.rng.uniform(0.5, 1.5))

    async def _begin_with_snapshot(self) -> None:
        """Begin with a snapshot, and subscribe from its cursor."""
        try:
            sessions, last = await self.read_sessions()
        except (GaveUp, RequestFailed):
            return
        self.load.tally.notes["devices that began with a snapshot"] += 1
        # A message that was sent while the snapshot was taken may be in it.
        self.chain.begin(time.time())
        self.view.take_snapshot(sessions)
        for subscription in self._subscriptions.values():
            subscription.cursor = last["cursor"]

    async def _use(self, connection: LoadConnection) -> tuple[str, str]:
        reading = asyncio.create_task(connection.run())
        self._choose_followed()
        try:
            for name in self._subscriptions:
                await self._subscribe(connection, name)
            self.connection = connection
        except ConnectionClosed:
            pass
        try:
            return await asyncio.shield(reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _choose_followed(self) -> None:
        names = sorted(name for name in self.view.sessions if not name.startswith("b_"))
        if self._follows_one and self.followed is None and names:
            self.followed = self.rng.choice(names)
            self._subscriptions["one"] = DeviceSubscription(self._document, self._handle_one, {"id": self.followed})

    def _note_end(self, connection: LoadConnection, end: str, reason: str) -> None:
        tally = self.load.tally
        if end.isdigit() and int(end) not in RETRIED:
            tally.problem(f"{self.name}: closed with {end} {reason}, after which clients give up")
        if end.isdigit() and int(end) >= 4000 and not connection.stalled:
            tally.problem(f"{self.name}: closed with {end} {reason}, though it read and answered")
        tally.closes[f"{end}{' after a stall' if connection.stalled and end.isdigit() else ''}"] += 1

    async def _subscribe(self, connection: LoadConnection, name: str) -> None:
        subscription = self._subscriptions[name]
        subscription.caught_up = False
        match name:
            case "live":
                self.chain.resubscribed()
            case "one":
                self.one_chain.resubscribed()
            case _:
                self.view.resubscribed_to_sessions()
        variables = subscription.variables | {"since": subscription.cursor}
        subscription.id = await connection.subscribe(
            subscription.document, variables, lambda payload: self._apply(name, subscription, payload)
        )

    async def resubscribe(self, name: str = "") -> None:
        """End a subscription, any one unless it is named, and begin it again on the same connection."""
        connection = self.connection
        if connection is None:
            return
        name = name or self.rng.choice(sorted(self._subscriptions))
        try:
            await connection.unsubscribe(self._subscriptions[name].id)
            await self._subscribe(connection, name)
        except ConnectionClosed:
            return

    # --- events

    def _apply(self, name: str, subscription: DeviceSubscription, payload: Json) -> None:
        if "data" not in payload:
            self._handle_end(name, subscription, payload)
            return
        if payload["data"] is None:
            self.load.tally.problem(f"{self.name}: an event of {name} without data: {payload}")
            return
        (event,) = payload["data"].values()
        self.load.history.note(
            "event", device=self.name, user=self.user, subscription=name, live=subscription.caught_up, event=event
        )
        try:
            subscription.listener(event)
        except Exception:
            self.load.tally.problem(f"{self.name}: {event} could not be applied: {traceback.format_exc()}")
        if event.get("__typename") == "CaughtUp" or (event.get("reason") == "CATCH_UP" and not event["hasMore"]):
            subscription.caught_up = True
        subscription.cursor = event.get("cursor", subscription.cursor)
        if self.view.has_questions:
            self._has_questions.set()

    def _handle_end(self, name: str, subscription: DeviceSubscription, payload: Json) -> None:
        """The server ended the subscription: begin it again."""
        error = (payload.get("errors") or [{}])[0]
        code = (error.get("extensions") or {}).get("code", "complete")
        self.load.tally.notes[f"a server ended a subscription: {code}"] += 1
        if code not in ("complete", "UNAVAILABLE"):
            self.load.tally.problem(f"{self.name}: {name} was ended: {payload}")
        subscription.caught_up = False
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.create_task(self._resubscribe_later(name, self.connection)))

    async def _resubscribe_later(self, name: str, connection: LoadConnection | None) -> None:
        await asyncio.sleep(self.rng.uniform(0.5, 1.5))
        if self.connection is connection:
            await self.resubscribe(name)

    def _handle_sync(self, event: Json) -> None:
        tally, catching_up = self.load.tally, event["reason"] == "CATCH_UP"
        tally.events[f"syncSession {event['reason']}"] += 1
        if catching_up and event["reset"]:
            tally.notes["resets of syncSession"] += not event["hasMore"]
            self._active.clear()
        if not catching_up and (event["reset"] or event["hasMore"] or not self._subscriptions["sync"].caught_up):
            tally.problem(f"{self.name}: {event} came before the catch-up, or looks like a part of one")
        for session in event["sessions"]:
            name, active = session["conversation"]["id"], session["activeTs"]
            if active < self._active.get(name, 0) and name.startswith("b_"):
                # Known: an event may carry a newer state of the gateway than the next event does.
                tally.notes["events with an older state of a gateway"] += 1
            elif active < self._active.get(name, 0):
                tally.problem(f"{self.name}: {name} was at {self._active[name]}, now {event['reason']} {session}")
            self._active[name] = max(active, self._active.get(name, 0))
        # Sessions in channels are in no session list.
        listed = [s for s in without_threads(event["sessions"]) if not s["conversation"]["id"].startswith("c_")]
        self.view.apply_sync(event | {"sessions": listed})

    def _handle_live(self, event: Json) -> None:
        self.load.tally.events[event["__typename"]] += 1
        match event["__typename"]:
            case "CaughtUp":
                if self.chain.handle_caught_up(event):
                    self.load.tally.notes["resets of messageEvents"] += event["reset"]
                    self.view.reset()
            case "ReceiptAdvanced":
                self.chain.handle_receipt(event)
                self.view.apply_receipt(event)
            case "TypingStarted":
                self.chain.handle_typing(event)
            case "Mentioned":
                self.chain.handle_mention(event)
            case "MessageCreated":
                self.chain.handle_message(event)
                if not is_of_threads(event["message"]["conversationId"]):
                    self.view.apply_created(event["message"])
            case "MessageUpdated" | "MessageRecalled":
                self.chain.handle_message(event)
                if not is_of_threads(event["message"]["conversationId"]):
                    self.view.apply_revised(event["message"])
            case _:
                self.chain.handle_mark()
        self.load.note_received(self.user, event)

    def _handle_one(self, event: Json) -> None:
        tally, chain = self.load.tally, self.one_chain
        tally.events[f"{event['__typename']}, of one conversation"] += 1
        match event["__typename"]:
            case "CaughtUp":
                chain.handle_caught_up(event)
                return
            case "ReceiptAdvanced":
                chain.handle_receipt(event)
            case "TypingStarted":
                chain.handle_typing(event)
            case "MessageCreated" | "MessageUpdated" | "MessageRecalled" | "Mentioned":
                chain.handle_message(event)
            case _:
                chain.handle_mark()
        if event.get("message", event).get("conversationId", self.followed) != self.followed:
            tally.problem(f"{chain.name}: follows {self.followed} only, and received {event}")
        self.load.note_received(self.user, event)

    # --- questions that events leave open

    async def _answer_questions(self) -> None:
        while True:
            await self._has_questions.wait()
            self._has_questions.clear()
            self._asking = True
            try:
                while self.view.has_questions:
                    await self._ask_next()
            except GaveUp as gave_up:
                self.load.tally.notes[f"a device gave up a question: {gave_up}"] += 1
                self._has_questions.set()
                await asyncio.sleep(LONGEST_PAUSE)
            except RequestFailed as failed:
                self.load.tally.problem(f"{self.name}: a device's question failed: {failed}")
            finally:
                self._asking = False

    async def _ask_next(self) -> None:
        view = self.view
        generation = view.generation
        if view.snapshot_due:
            sessions, _ = await self.read_sessions()
            if view.generation == generation:
                view.take_snapshot(sessions)
            return
        names = view.to_ask or view.histories
        name = names.pop()
        try:
            await (self._ask_session if names is view.to_ask else self._ask_history)(name, generation)
        except GaveUp:
            if view.generation == generation:
                names.add(name)
            raise

    async def _ask_session(self, name: str, generation: int) -> None:
        session = await self.request("session", id=name)
        if session is None:
            self.load.tally.problem(f"{self.name}: received {name}, and has no session of it")
        elif self.view.generation == generation:
            self.view.take(session)
            if name in self.view.to_ask:
                self.load.tally.notes["asked again: events came while a session was asked for"] += 1
                await asyncio.sleep(FIRST_PAUSE)

    async def _ask_history(self, name: str, generation: int) -> None:
        page = await self.request("messages", id=name, last=50)
        if page is None:
            self.load.tally.problem(f"{self.name}: has a session of {name}, and no history")
        elif self.view.generation == generation:
            newest = [edge["node"] for edge in page["edges"]]
            self.view.take_history(name, newest, more_before=page["pageInfo"]["hasPreviousPage"])
