"""What subscribers are shown of an event: executed and encoded once for all who are to see the same.

`Selection` stands for all live subscriptions of this process with the same selection, `Rendering` for what one event is to
them. An execution's outcome holds for everybody who answers the questions it asked about its viewer as its viewer did
(`schema.viewers`); what differs for every subscriber, the cursor, is left open in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol
from weakref import WeakValueDictionary

import structlog

from resolvers.live.live_streams import LiveEvent, LivePayload
from resolvers.users.callers import Caller
from schema.base.errors import refusal_by
from schema.base.viewers import WHOLE, Question, Viewer
from schema.events import CURSOR, Source
from subscriptions.transport.engine import RequestRefused, StreamEnded

_log = structlog.get_logger()

_HOLE = f'"{CURSOR}"'.encode()
_AT_ONCE = 64
"""Executions under way together for one event, where everybody is shown something else."""

_A_TURN = 256
"""Subscribers told before others on the loop get their turn."""

Execute = Callable[[object, Viewer], Awaitable[bytes]]
"""Executes the selection on a field's value, for a viewer, and encodes the response."""

MessageDelta = Callable[[Any], object]
"""What an event is as the value of the subscription's field, with CURSOR for the cursor."""


class Body:
    """An encoded response, with the cursor left open wherever it was selected."""

    __slots__ = ("_parts", "needs_cursor")

    def __init__(self, response: bytes) -> None:
        self._parts = response.split(_HOLE)
        self.needs_cursor = len(self._parts) > 1

    def whole(self, cursor: str = "") -> bytes:
        """The response to a subscriber who is to resume there."""
        return f'"{cursor}"'.encode().join(self._parts)


Outcome = Body | RequestRefused
"""What an event is to a subscriber, or why it can't be told."""


class Selection:
    """One selection and its variables, for as long as somebody subscribes with it."""

    __slots__ = ("__weakref__", "_execute", "_latest", "_renderings")

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._renderings: WeakValueDictionary[int, Rendering] = WeakValueDictionary()
        self._latest: Rendering | None = None

    def rendering(self, what: LivePayload, show: MessageDelta) -> Rendering:
        """What an event is to all who have this selection; kept for as long as one of them holds it."""
        latest = self._latest
        if latest is not None and latest.what is what:
            return latest
        # A rendering holds its event, so that no other can have its id meanwhile.
        rendering = self._renderings.get(id(what))
        if rendering is None:
            rendering = self._renderings[id(what)] = Rendering(what, show, self._execute)
        self._latest = rendering
        return rendering


class ResponseWaiter(Protocol):
    """A subscriber of a rendering."""

    @property
    def caller(self) -> Caller: ...

    def rendered(self, outcome: Outcome) -> None:
        """What was waited for is there."""
        ...


class _Outcomes:
    """What executions led to that asked the same of their viewers."""

    __slots__ = ("_answered", "_apart", "_bodies", "_questions", "asked")

    def __init__(self, asked: tuple[Question, ...]) -> None:
        self.asked = asked
        self._apart = WHOLE in asked
        self._questions = tuple(question for question in asked if question is not WHOLE)
        self._bodies: dict[Hashable, Body] = {}
        self._answered: set[Hashable] = set()

    def add(self, caller: Caller, body: Body) -> None:
        self._answered.add(self._answers(caller))
        self._bodies[self._key(caller)] = body

    def find(self, caller: Caller) -> Body | None:
        return self._bodies.get(self._key(caller))

    def sets_apart(self, caller: Caller) -> bool:
        """Whether it is known that what they are shown is nobody else's."""
        return self._apart and self._answers(caller) in self._answered

    def _answers(self, caller: Caller) -> Hashable:
        return tuple([question.answer(caller) for question in self._questions])

    def _key(self, caller: Caller) -> Hashable:
        return (self._answers(caller), WHOLE.answer(caller)) if self._apart else self._answers(caller)


class Rendering:
    """One event for all subscribers of a selection."""

    __slots__ = (
        "__weakref__",
        "_execute",
        "_for_all",
        "_outcomes",
        "_running",
        "_show",
        "_waiting",
        "what",
    )

    def __init__(self, what: LivePayload, show: MessageDelta, execute: Execute) -> None:
        self.what = what
        self._show = show
        self._execute = execute
        self._outcomes: list[_Outcomes] = []
        self._for_all: Body | None = None
        self._waiting: list[ResponseWaiter] = []
        self._running: asyncio.Task[None] | None = None

    def body(self, caller: Caller) -> Body | None:
        """What it is to a subscriber; None if that is not known yet."""
        if self._for_all is not None:
            return self._for_all
        for outcomes in self._outcomes:
            body = outcomes.find(caller)
            if body is not None:
                return body
        return None

    def wait(self, waiting: ResponseWaiter) -> None:
        """Has a subscriber told what it is to them. A failure is told to those who wait, and not kept: whoever comes later has it
        tried anew."""
        self._waiting.append(waiting)
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        """Executes for one who waits, and for the others only what that leaves open."""
        try:
            while self._waiting:
                callers = {waiting.caller.user_id: waiting.caller for waiting in self._waiting}
                alone = [c for c in callers.values() if any(outcomes.sets_apart(c) for outcomes in self._outcomes)]
                chosen = alone[:_AT_ONCE] or [next(iter(callers.values()))]
                failures = await asyncio.gather(*(self._render(caller) for caller in chosen))
                await self._tell(next(filter(None, failures), None))
        finally:
            self._running = None

    async def _render(self, caller: Caller) -> RequestRefused | None:
        viewer = Viewer(caller, is_one_of_many=True)
        try:
            body = Body(await self._execute(self._show(self.what), viewer))
        except Exception as failure:
            return refusal_by(failure)
        asked = tuple(viewer.asked)
        if not asked:
            self._for_all = body
            return None
        for outcomes in self._outcomes:
            if outcomes.asked == asked:
                break
        else:
            outcomes = _Outcomes(asked)
            self._outcomes.append(outcomes)
        outcomes.add(caller, body)
        return None

    async def _tell(self, failure: RequestRefused | None) -> None:
        """Calls those for whom it is known now; with a failure, all of them."""
        everybody, self._waiting = self._waiting, []
        for index, waiting in enumerate(everybody, start=1):
            outcome = self.body(waiting.caller) or failure
            if outcome is None:
                self._waiting.append(waiting)
            else:
                try:
                    waiting.rendered(outcome)
                except Exception:
                    _log.exception("a subscriber failed at what it was told")
            if index % _A_TURN == 0:
                await asyncio.sleep(0)


class Responses:
    """A subscription's responses: each event as its selection shows it, with the subscriber's own cursor."""

    __slots__ = ("_outcome", "_ready", "_rendering", "_selection", "_source", "_told", "caller")

    def __init__(self, selection: Selection, source: Source, caller: Caller) -> None:
        self.caller = caller
        self._selection = selection
        self._source: Source | None = source
        self._told: LiveEvent | None = None
        self._rendering: Rendering | None = None
        self._outcome: Outcome | None = None
        self._ready: Callable[[], None] | None = None

    def on_ready(self, call: Callable[[], None]) -> None:
        """`call` is made when `take` answered None and may have something now."""
        self._ready = call
        if self._source is not None:
            self._source.stream.on_ready(self._next)

    def _next(self) -> None:
        # What came after an event that is still being rendered has to wait for it.
        if self._rendering is None and self._ready is not None:
            self._ready()

    def rendered(self, outcome: Outcome) -> None:
        """The event that was waited for has been rendered."""
        self._outcome = outcome
        if self._ready is not None:
            self._ready()

    def take(self) -> bytes | None:
        """The next response, encoded, if there is one. Raises StreamEnded and RequestRefused."""
        source = self._source
        if source is None:
            raise StreamEnded
        if self._told is None:
            try:
                self._told = source.stream.take()
            except Exception as failure:
                raise refusal_by(failure) from failure
            if self._told is None:
                return None
        told, outcome = self._told, self._outcome
        if outcome is None:
            outcome = self._find_body(told, source)
            if outcome is None:
                return None
        if isinstance(outcome, RequestRefused):
            raise refusal_by(outcome)
        self._told = self._rendering = self._outcome = None
        if outcome.needs_cursor and told.cursor is not None:
            return outcome.whole(source.cursor(told.cursor))
        return outcome.whole()

    def _find_body(self, told: LiveEvent, source: Source) -> Body | None:
        """What an event is, if it has been rendered. Otherwise this is called when it has."""
        rendering = self._rendering
        if rendering is not None:
            return None
        rendering = self._selection.rendering(told.what, source.show)
        body = rendering.body(self.caller)
        if body is None:
            self._rendering = rendering
            rendering.wait(self)
        return body

    def close(self) -> None:
        """Ends it."""
        if self._source is not None:
            self._source.stream.close()
        self._source = self._told = self._rendering = self._outcome = self._ready = None
