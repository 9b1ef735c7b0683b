"""A device of the torture: npm's graphql-ws with a careful frontend behind it.

It keeps a cursor of the last event that it applied, one for each of the two subscriptions, comes back to any server after any
end of a connection, with pauses that grow, resumes both with their cursors, and begins anew where it is told to.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from websockets.exceptions import ConnectionClosed

from tests.invariants.soak_client import Json
from tests.invariants.torture_chain import Chain
from tests.invariants.torture_view import View
from tests.invariants.torture_wire import (
    LIVE_SESSIONS,
    RETRIED,
    Line,
    Lost,
    Refused,
    ask_by_http,
    hinted_pause,
    live_messages,
)
from tests.invariants.torture_world import World

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_BY_SOCKET = 0.7
"""How much of what it asks goes over its own socket; the rest goes to any server."""


class GaveUp(Exception):
    """No answer, however often it was asked."""


class Device:
    """One of a user's devices."""

    def __init__(self, world: World, user: str, number: int, seed: int) -> None:
        self.world = world
        self.user = user
        self.name = f"{user}/{number}"
        self.rng = random.Random(seed)
        self.view = View(user, world.tally, world.full)
        self.chain = Chain(self.name, user, world.tally)
        self.line: Line | None = None
        self.offline_until = 0.0
        self._small = self.rng.random() < 0.5
        self._messages_query = live_messages(ticks=self.rng.random() < 0.5)
        self._cursors: dict[str, str | None] = {"sync": None, "live": None}
        self._subscriptions: dict[str, str] = {}
        self._begun: set[str] = set()
        self._due = asyncio.Event()
        self._mending = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def unsettled(self) -> str:
        """What it still waits for: a connection, word that it has caught up, answers. Empty: nothing."""
        view = self.view
        if len(self._begun) < 2:
            return f"{'connected' if self.line else 'not connected'}, caught up with {sorted(self._begun)}"
        if self._mending or view.has_questions:
            return f"asks for {'a snapshot' if view.snapshot_due else sorted(view.doubts | view.histories)[:5]}"
        return ""

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

    # --- asking

    async def ask(self, kind: str, **variables: Any) -> Any:
        """Until there is an answer, as often as it takes, wherever it comes from. Raises Refused for one that is final, and
        GaveUp."""
        outcomes, pause = self.world.tally.operations[kind], _FIRST_PAUSE
        deadline = time.monotonic() + self.world.patience
        while True:
            try:
                value = await self._ask_once(kind, variables)
            except Refused as refused:
                outcomes[refused.code] += 1
                if not refused.retryable:
                    raise
            except Lost as lost:
                outcomes[f"lost ({lost})"] += 1
            else:
                outcomes["answered"] += 1
                return value
            if time.monotonic() > deadline:
                outcomes["given up"] += 1
                raise GaveUp(kind)
            await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _ask_once(self, kind: str, variables: Json) -> Any:
        line = self.line
        if line is not None and not line.stalled and self.rng.random() < _BY_SOCKET:
            return await line.ask(kind, variables)
        return await ask_by_http(self.world.http, self.world.fleet.pick(self.rng), self.user, kind, variables)

    # --- the connection

    async def _follow(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(max(0.0, self.offline_until - time.monotonic()))
            server = self.world.fleet.pick(self.rng)
            try:
                line = await Line.open(server, self.user, self.world.tally, small=self._small)
            except Lost as lost:
                self.world.tally.closes[str(lost)] += 1
                await asyncio.sleep(pause * self.rng.uniform(0.5, 1.5))
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            pause = _FIRST_PAUSE
            self.world.tally.notes["connections"] += 1
            try:
                how, reason = await self._converse(line)
            finally:
                self.line = None
                self._begun.clear()
            self._note_end(line, how, reason)
            await asyncio.sleep(hinted_pause(reason) or pause * self.rng.uniform(0.5, 1.5))

    async def _converse(self, line: Line) -> tuple[str, str]:
        reading = asyncio.create_task(line.run())
        try:
            await self._subscribe(line, "sync")
            await self._subscribe(line, "live")
            self.line = line
        except ConnectionClosed:
            pass
        try:
            return await asyncio.shield(reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _note_end(self, line: Line, how: str, reason: str) -> None:
        tally = self.world.tally
        if how.isdigit() and int(how) not in RETRIED:
            tally.problem(f"{self.name}: closed with {how} {reason}, after which clients give up")
        if how.isdigit() and int(how) >= 4000 and not line.stalled:
            tally.problem(f"{self.name}: closed with {how} {reason}, though it read and answered")
        tally.closes[f"{how}{' after it had stopped reading' if line.stalled and how.isdigit() else ''}"] += 1

    async def _subscribe(self, line: Line, name: str) -> None:
        self._begun.discard(name)
        if name == "live":
            self.chain.connected()
        else:
            self.view.resubscribed()
        hear: dict[str, Callable[[Json], None]] = {"sync": self._hear_sync, "live": self._hear_live}
        query = LIVE_SESSIONS if name == "sync" else self._messages_query
        apply = hear[name]
        self._subscriptions[name] = await line.subscribe(
            query, self._cursors[name], lambda payload: self._apply(name, payload, apply)
        )

    async def resubscribe(self, name: str) -> None:
        """Ends one of the two subscriptions and begins it again on the same connection."""
        line = self.line
        if line is None:
            return
        try:
            await line.unsubscribe(self._subscriptions[name])
            await self._subscribe(line, name)
        except ConnectionClosed:
            return

    # --- events

    def _apply(self, name: str, payload: Json, hear: Callable[[Json], None]) -> None:
        tally = self.world.tally
        if "data" not in payload:
            self._hear_end(name, payload)
            return
        (event,) = payload["data"].values()
        try:
            hear(event)
        except Exception:
            tally.problem(f"{self.name}: {event} was not understood: {traceback.format_exc()}")
        if "cursor" in event:
            self._cursors[name] = event["cursor"]
        if self.view.has_questions:
            self._due.set()

    def _hear_end(self, name: str, payload: Json) -> None:
        """The server ended the subscription by itself: it is begun again."""
        error = (payload.get("errors") or [{}])[0]
        code = (error.get("extensions") or {}).get("code", "complete")
        self.world.tally.notes[f"a subscription ended by the server: {code}"] += 1
        if code not in ("complete", "UNAVAILABLE"):
            self.world.tally.problem(f"{self.name}: {name} was ended: {payload}")
        self._begun.discard(name)
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.create_task(self._begin_again(name, self.line)))

    async def _begin_again(self, name: str, line: Line | None) -> None:
        await asyncio.sleep(self.rng.uniform(0.5, 1.5))
        if self.line is line:
            await self.resubscribe(name)

    def _hear_sync(self, event: Json) -> None:
        catching_up = event["reason"] == "CATCH_UP"
        self.world.tally.events[f"syncSession {event['reason']}"] += 1
        if catching_up and event["reset"] and not event["hasMore"]:
            self.world.tally.notes["resets of syncSession"] += 1
        if not catching_up and (event["reset"] or event["hasMore"] or "sync" not in self._begun):
            self.world.tally.problem(f"{self.name}: {event}, the first part of catching up still to come, or no part")
        self.view.hear_sync(event)
        if catching_up and not event["hasMore"]:
            self._begun.add("sync")

    def _hear_live(self, event: Json) -> None:
        what = event["__typename"]
        self.world.tally.events[what] += 1
        match what:
            case "CaughtUp":
                first = self.chain.began == float("inf")
                self.chain.hear_caught_up(event)
                if event["reset"] or first:
                    self.world.tally.notes["resets of messageEvents"] += event["reset"]
                    self.view.begin_anew()
                self._begun.add("live")
            case "ReceiptAdvanced":
                self.chain.hear_receipt(event)
                self.view.hear_receipt(event)
            case "TypingStarted":
                self.chain.hear_typing(event)
                self.world.was_told(self.user, event["conversationId"], None)
            case "MessageCreated":
                message = event["message"]
                self.chain.hear_message(event)
                self.view.hear_created(message)
                self.world.was_told(self.user, message["conversationId"], message["seq"])
            case _:
                message = event["message"]
                self.chain.hear_message(event)
                self.view.hear_revised(message)
                if message["conversationId"] not in self.world.full:
                    self.world.was_told(self.user, message["conversationId"], message["seq"])

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
                await asyncio.sleep(_LONGEST_PAUSE)
            except Refused as refused:
                self.world.tally.problem(f"{self.name}: a device's question was refused: {refused}")
            finally:
                self._mending = False

    async def _ask_next(self) -> None:
        view = self.view
        generation = view.generation
        if view.snapshot_due:
            sessions = await self._snapshot()
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
                await asyncio.sleep(_FIRST_PAUSE)

    async def _ask_history(self, name: str, generation: int) -> None:
        page = await self.ask("messages", id=name, last=50)
        if page is None:
            self.world.tally.problem(f"{self.name}: has a session of {name}, and no history")
        elif self.view.generation == generation:
            newest = [edge["node"] for edge in page["edges"]]
            self.view.take_history(name, newest, more_before=page["pageInfo"]["hasPreviousPage"])

    async def _snapshot(self) -> list[Json]:
        delta = await self.ask("syncSessions", since=None)
        found: list[Json] = delta["sessions"]
        while delta["hasMore"]:
            delta = await self.ask("syncSessions", since=delta["cursor"])
            found += delta["sessions"]
        return found
