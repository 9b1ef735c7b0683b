"""A device of the torture: npm's graphql-ws with a careful frontend behind it.

It keeps a cursor of the last event that it applied, one for each of its subscriptions, comes back to any server after any
end of a connection, with pauses that grow, resumes each with its cursor, and begins anew where it is told to.
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

from tests.chaos.asking import FIRST_PAUSE, LONGEST_PAUSE, Asker, GaveUp
from tests.chaos.chain import Chain
from tests.chaos.history import Json
from tests.chaos.view import View
from tests.chaos.wire import (
    LIVE_SESSIONS,
    RETRIED,
    Line,
    Lost,
    Refused,
    hinted_pause,
    live_messages,
)
from tests.chaos.world import World


@dataclass
class Subscription:
    """One that a device keeps up, over all its connections."""

    query: str
    hear: Callable[[Json], None]
    variables: Json = field(default_factory=dict)
    cursor: str | None = None
    id: str = ""
    begun: bool = False
    """Whether it has caught up on this connection."""


class Device(Asker):
    """One of a user's devices."""

    def __init__(self, world: World, user: str, number: int, seed: int) -> None:
        super().__init__(world, user, f"{user}/{number}", random.Random(seed))
        self.offline_until = 0.0
        self.forgetful = False
        """Whether it loses all that it holds before it connects again."""
        self._small = self.rng.random() < 0.5
        self._query = live_messages(ticks=self.rng.random() < 0.5)
        self._due = asyncio.Event()
        self._mending = False
        self._tasks: list[asyncio.Task[None]] = []
        self._install(0)

    def _install(self, generation: int) -> None:
        self.forgetful = False
        self.view = View(self.user, self.world.tally, self.world.full, generation)
        self.chain = Chain(self.name, self.user, self.world.tally, self.world.skew)
        self.room_chain = Chain(f"{self.name} in one conversation", self.user, self.world.tally, self.world.skew)
        self.room: str | None = None
        """The conversation that it follows alone, beside all."""
        self._follows_room = self.rng.random() < 0.3
        self._active: dict[str, int] = {}
        self._subscriptions = {
            "sync": Subscription(LIVE_SESSIONS, self._hear_sync),
            "live": Subscription(self._query, self._hear_live),
        }

    @property
    def is_unsettled(self) -> bool:
        """Whether it still waits for a connection, for word that it has caught up, or for answers."""
        caught_up = all(subscription.begun for subscription in self._subscriptions.values())
        return self.line is None or not caught_up or self._mending or self.view.has_questions

    def unsettled(self, fresh: dict[str, Json]) -> str:
        """What it waits for, beside what a fresh client is shown."""
        late = [name for name, subscription in self._subscriptions.items() if not subscription.begun]
        if self.line is None or late:
            return f"{'connected' if self.line else 'not connected'}, not caught up with {late}"
        return f"asks for {self.view.describe_questions(fresh)}"

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._guarded(work())) for work in (self._follow, self._mend)]

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            self.world.tally.problem(f"{self.name} broke down: {traceback.format_exc()}")

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- the connection

    async def _follow(self) -> None:
        pause, new = FIRST_PAUSE, True
        while True:
            await asyncio.sleep(max(0.0, self.offline_until - time.monotonic()))
            if self.forgetful:
                self._install(self.view.generation + 1)
                new = True
            if new and self.rng.random() < 0.5:
                await self._begin_with_a_page()
            new = False
            server = self.world.fleet.pick(self.rng)
            try:
                line = await Line.open(server, self.user, self.world.tally, small=self._small)
            except Lost as lost:
                self.world.tally.closes[str(lost)] += 1
                await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            self.world.tally.notes["connections"] += 1
            try:
                how, reason = await self._converse(line)
            finally:
                self.line = None
            self._note_end(line, how, reason)
            await asyncio.sleep(hinted_pause(reason) or pause * self.rng.uniform(0.5, 1.5))

    async def _begin_with_a_page(self) -> None:
        """Another way to begin: first what there is, then what happens after its cursor."""
        try:
            sessions, cursor = await self._snapshot()
        except (GaveUp, Refused):
            return
        self.world.tally.notes["devices that began with a page"] += 1
        # What was sent while it was asked for, more than once perhaps, may be in it.
        self.chain.begin(time.time())
        self.view.take_snapshot(sessions)
        for subscription in self._subscriptions.values():
            subscription.cursor = cursor

    async def _converse(self, line: Line) -> tuple[str, str]:
        reading = asyncio.create_task(line.run())
        self._choose_room()
        try:
            for name in self._subscriptions:
                await self._subscribe(line, name)
            self.line = line
        except ConnectionClosed:
            pass
        try:
            return await asyncio.shield(reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _choose_room(self) -> None:
        if self._follows_room and self.room is None and self.view.sessions:
            self.room = self.rng.choice(sorted(self.view.sessions))
            self._subscriptions["room"] = Subscription(self._query, self._hear_room, {"id": self.room})

    def _note_end(self, line: Line, how: str, reason: str) -> None:
        tally = self.world.tally
        if how.isdigit() and int(how) not in RETRIED:
            tally.problem(f"{self.name}: closed with {how} {reason}, after which clients give up")
        if how.isdigit() and int(how) >= 4000 and not line.stalled:
            tally.problem(f"{self.name}: closed with {how} {reason}, though it read and answered")
        tally.closes[f"{how}{' after it had stopped reading' if line.stalled and how.isdigit() else ''}"] += 1

    async def _subscribe(self, line: Line, name: str) -> None:
        subscription = self._subscriptions[name]
        subscription.begun = False
        match name:
            case "live":
                self.chain.connected()
            case "room":
                self.room_chain.connected()
            case _:
                self.view.resubscribed()
        variables = subscription.variables | {"since": subscription.cursor}
        subscription.id = await line.subscribe(
            subscription.query, variables, lambda payload: self._apply(name, subscription, payload)
        )

    async def resubscribe(self, name: str = "") -> None:
        """Ends one of the subscriptions, any unless it is named, and begins it again on the same connection."""
        line = self.line
        if line is None:
            return
        name = name or self.rng.choice(sorted(self._subscriptions))
        try:
            await line.unsubscribe(self._subscriptions[name].id)
            await self._subscribe(line, name)
        except ConnectionClosed:
            return

    # --- events

    def _apply(self, name: str, subscription: Subscription, payload: Json) -> None:
        if "data" not in payload:
            self._hear_end(name, subscription, payload)
            return
        (event,) = payload["data"].values()
        self.world.history.note("event", who=self.name, user=self.user, of=name, live=subscription.begun, event=event)
        try:
            subscription.hear(event)
        except Exception:
            self.world.tally.problem(f"{self.name}: {event} was not understood: {traceback.format_exc()}")
        if event.get("__typename") == "CaughtUp" or (event.get("reason") == "CATCH_UP" and not event["hasMore"]):
            subscription.begun = True
        subscription.cursor = event.get("cursor", subscription.cursor)
        if self.view.has_questions:
            self._due.set()

    def _hear_end(self, name: str, subscription: Subscription, payload: Json) -> None:
        """The server ended the subscription by itself: it is begun again."""
        error = (payload.get("errors") or [{}])[0]
        code = (error.get("extensions") or {}).get("code", "complete")
        self.world.tally.notes[f"a subscription ended by the server: {code}"] += 1
        if code not in ("complete", "UNAVAILABLE"):
            self.world.tally.problem(f"{self.name}: {name} was ended: {payload}")
        subscription.begun = False
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.create_task(self._begin_again(name, self.line)))

    async def _begin_again(self, name: str, line: Line | None) -> None:
        await asyncio.sleep(self.rng.uniform(0.5, 1.5))
        if self.line is line:
            await self.resubscribe(name)

    def _hear_sync(self, event: Json) -> None:
        tally, catching_up = self.world.tally, event["reason"] == "CATCH_UP"
        tally.events[f"syncSession {event['reason']}"] += 1
        if catching_up and event["reset"]:
            tally.notes["resets of syncSession"] += not event["hasMore"]
            self._active.clear()
        if not catching_up and (event["reset"] or event["hasMore"] or not self._subscriptions["sync"].begun):
            tally.problem(f"{self.name}: {event}, where the first part of catching up should be, or no part")
        for session in event["sessions"]:
            name, active = session["conversation"]["id"], session["activeTs"]
            if active < self._active.get(name, 0):
                tally.problem(f"{self.name}: told at {self._active[name]} before, and now {event['reason']} {session}")
            self._active[name] = active
        self.view.hear_sync(event)

    def _hear_live(self, event: Json) -> None:
        self.world.tally.events[event["__typename"]] += 1
        match event["__typename"]:
            case "CaughtUp":
                if self.chain.hear_caught_up(event):
                    self.world.tally.notes["resets of messageEvents"] += event["reset"]
                    self.view.begin_anew()
            case "ReceiptAdvanced":
                self.chain.hear_receipt(event)
                self.view.hear_receipt(event)
            case "TypingStarted":
                self.chain.hear_typing(event)
            case "MessageCreated":
                self.chain.hear_message(event)
                self.view.hear_created(event["message"])
            case _:
                self.chain.hear_message(event)
                self.view.hear_revised(event["message"])
        self.world.was_told(self.user, event)

    def _hear_room(self, event: Json) -> None:
        tally, chain = self.world.tally, self.room_chain
        tally.events[f"{event['__typename']}, of one conversation"] += 1
        match event["__typename"]:
            case "CaughtUp":
                chain.hear_caught_up(event)
                return
            case "ReceiptAdvanced":
                chain.hear_receipt(event)
            case "TypingStarted":
                chain.hear_typing(event)
            case _:
                chain.hear_message(event)
        if event.get("message", event)["conversationId"] != self.room:
            tally.problem(f"{chain.name}: of {self.room} alone, and was told {event}")
        self.world.was_told(self.user, event)

    # --- what events can't tell

    async def _mend(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            self._mending = True
            try:
                while self.view.has_questions:
                    await self._ask_next()
            except GaveUp as lost:
                self.world.tally.notes[f"a device's question was given up: {lost}"] += 1
                self._due.set()
                await asyncio.sleep(LONGEST_PAUSE)
            except Refused as refused:
                self.world.tally.problem(f"{self.name}: a device's question was refused: {refused}")
            finally:
                self._mending = False

    async def _ask_next(self) -> None:
        view = self.view
        generation = view.generation
        if view.snapshot_due:
            sessions, _ = await self._snapshot()
            if view.generation == generation:
                view.take_snapshot(sessions)
            return
        asked = view.doubts or view.histories
        name = asked.pop()
        try:
            await (self._ask_session if asked is view.doubts else self._ask_history)(name, generation)
        except GaveUp:
            if view.generation == generation:
                asked.add(name)
            raise

    async def _ask_session(self, name: str, generation: int) -> None:
        session = await self.ask("session", id=name)
        if session is None:
            self.world.tally.problem(f"{self.name}: was told of {name}, and has no session of it")
        elif self.view.generation == generation:
            self.view.take(session)
            if name in self.view.doubts:
                self.world.tally.notes["asked again: events came while a session was asked for"] += 1
                await asyncio.sleep(FIRST_PAUSE)

    async def _ask_history(self, name: str, generation: int) -> None:
        page = await self.ask("messages", id=name, last=50)
        if page is None:
            self.world.tally.problem(f"{self.name}: has a session of {name}, and no history")
        elif self.view.generation == generation:
            newest = [edge["node"] for edge in page["edges"]]
            self.view.take_history(name, newest, more_before=page["pageInfo"]["hasPreviousPage"])

    async def _snapshot(self) -> tuple[list[Json], str]:
        """All valid sessions, and the cursor behind them."""
        delta = await self.ask("syncSessions", since=None)
        found: list[Json] = delta["sessions"]
        while delta["hasMore"]:
            delta = await self.ask("syncSessions", since=delta["cursor"])
            found += delta["sessions"]
        return found, delta["cursor"]
