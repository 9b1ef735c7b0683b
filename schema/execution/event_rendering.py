"""Renders each event once for all subscribers that get the same response.

A `SharedSelection` represents all subscriptions of this process with the same selection, a `Rendering` one event in
that selection. The result of an execution is valid for every caller with the same values of the recorded dependencies
on the viewer (`schema.base.viewers`). Only the cursor differs for every subscriber: it is filled in afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakValueDictionary

import structlog

from resolvers.base.errors import RateLimited
from resolvers.live.channel_events import AccessEnded, ChannelCaughtUp
from resolvers.live.live_stream import CaughtUp, LiveEvent, LivePayload, SessionSync
from resolvers.live.workspace_events import WorkspaceCaughtUp
from resolvers.users.callers import Caller
from schema.base.errors import refusal_for
from schema.base.viewers import IDENTITY, TrackedViewer
from schema.events.source import Source
from schema.execution.event_slots import EventSlots
from schema.execution.rendered_responses import DROPPED, Dropped, RenderResult, ResponseTemplate, ResultsByViewer
from schema.execution.work import SelectionCost, SubscriptionCosts
from store.base.ids import UserId
from subscriptions.presence.presence_watch import PresenceState
from subscriptions.realtime.mailboxes import Position
from subscriptions.transport.engine import RequestRefused, ResponseSink, StreamEnded

_log = structlog.get_logger()

_MAX_CONCURRENT_EXECUTIONS = 64
"""Concurrent executions for one event, if every subscriber gets another response."""

_MAX_IMMEDIATE_EXECUTIONS = 8
"""Executions of one event that may run before other tasks of the event loop."""

_NEVER_DROPPED = (CaughtUp, SessionSync, ChannelCaughtUp, WorkspaceCaughtUp, AccessEnded, PresenceState)
"""Events that follow a loss, and newest states. Each subscriber waits for one of them at most."""

_NOTIFICATIONS_PER_TURN = 256
"""Subscribers notified before other tasks of the event loop run."""

Execute = Callable[[object, TrackedViewer, UserId], bytes | Awaitable[bytes]]
"""Executes the selection on a field's value, for a viewer with an id, and encodes the response.

Returns an awaitable only if the execution has to wait.
"""

Convert = Callable[[Any], object]
"""Returns an event as the value of the subscription's field, with CURSOR for the cursor."""


class SharedSelection:
    """One selection with its variables. Exists while a subscription uses it."""

    __slots__ = ("__weakref__", "_execute", "_latest", "_renderings", "_slots", "cost")

    def __init__(self, execute: Execute, cost: SelectionCost, slots: EventSlots) -> None:
        self._execute = execute
        self._slots = slots
        self.cost = cost
        """Cost of each event, which the subscribers share."""
        self._renderings: WeakValueDictionary[int, Rendering] = WeakValueDictionary()
        self._latest: Rendering | None = None

    def rendering(self, payload: LivePayload, convert: Convert, *, is_own: bool = False) -> Rendering:
        """Return the rendering of an event. It is kept while a subscriber holds it.

        `is_own`: no other subscriber gets the event.
        """
        latest = self._latest
        if latest is not None and latest.payload is payload:
            return latest
        # A rendering holds its payload, so the id is not reused while the rendering exists.
        rendering = self._renderings.get(id(payload))
        if rendering is None:
            rendering = self._renderings[id(payload)] = Rendering(
                payload, convert, self._execute, self.cost, self._slots, is_own=is_own
            )
        self._latest = rendering
        return rendering


class ResponseWaiter(Protocol):
    """A subscriber that waits for a rendering."""

    @property
    def caller(self) -> Caller:
        """The subscriber's user."""
        ...

    def on_rendered(self, result: RenderResult) -> None:
        """Take the result."""
        ...


class Rendering:
    """One event for all subscribers with the same selection."""

    __slots__ = (
        "__weakref__",
        "_convert",
        "_cost",
        "_execute",
        "_executions",
        "_is_own",
        "_result_for_all",
        "_results",
        "_slots",
        "_task",
        "_waiters",
        "payload",
    )

    def __init__(
        self,
        payload: LivePayload,
        convert: Convert,
        execute: Execute,
        cost: SelectionCost,
        slots: EventSlots,
        *,
        is_own: bool,
    ) -> None:
        self.payload = payload
        self._slots = slots
        self._convert = convert
        self._execute = execute
        self._cost = cost
        self._is_own = is_own
        self._executions = 0
        self._results: list[ResultsByViewer] = []
        self._result_for_all: ResponseTemplate | None = None
        self._waiters: list[ResponseWaiter] = []
        self._task: asyncio.Task[None] | None = None

    def find(self, caller: Caller) -> ResponseTemplate | None:
        """Return the response for a subscriber; None if it has not been rendered yet."""
        if self._result_for_all is not None:
            return self._result_for_all
        for results in self._results:
            template = results.find(caller)
            if template is not None:
                return template
        return None

    def render_for(self, waiter: ResponseWaiter) -> RenderResult | Dropped | None:
        """Render the event for a subscriber. Return None if that takes longer; then the subscriber is notified.

        All waiting subscribers get a failure. It is not kept: a later subscriber causes another execution.
        """
        first: Awaitable[RequestRefused | None] | None = None
        may_drop = not isinstance(self.payload, _NEVER_DROPPED)
        user = waiter.caller.user_id
        if self._task is None and self._executions < _MAX_IMMEDIATE_EXECUTIONS and self._slots.try_start(user):
            outcome = self._render(waiter.caller)
            if not isinstance(outcome, Awaitable):
                return outcome or self.find(waiter.caller)
            # Somebody has to wait for an execution that has begun.
            first, may_drop = outcome, False
        if not self._slots.add_waiting(user, may_drop=may_drop):
            return DROPPED
        self._waiters.append(waiter)
        if self._task is None:
            self._task = asyncio.create_task(self._render_for_waiters(first))
        return None

    async def _render_for_waiters(self, first: Awaitable[RequestRefused | None] | None) -> None:
        """Await the first execution, then execute for those whose response is still unknown."""
        try:
            if first is not None:
                await self._notify(await first)
            while self._waiters:
                callers = {IDENTITY.value_for(waiter.caller): waiter.caller for waiter in self._waiters}
                individual = [c for c in callers.values() if any(results.is_individual(c) for results in self._results)]
                # Users who have much under way come last: nobody else waits in their queue.
                individual.sort(key=self._load_of)
                chosen = individual[:_MAX_CONCURRENT_EXECUTIONS] or [min(callers.values(), key=self._load_of)]
                if self._load_of(chosen[0]) == 0:
                    chosen = [caller for caller in chosen if self._load_of(caller) == 0]
                outcomes = [self._render_in_turn(caller) for caller in chosen]
                failures = [outcome for outcome in outcomes if isinstance(outcome, RequestRefused)]
                failures += filter(None, await asyncio.gather(*(o for o in outcomes if isinstance(o, Awaitable))))
                await self._notify(next(iter(failures), None))
                await asyncio.sleep(0)
        finally:
            self._task = None

    def _load_of(self, caller: Caller) -> int:
        return self._slots.count_executions(caller.user_id)

    def _render_in_turn(self, caller: Caller) -> Awaitable[RequestRefused | None] | RequestRefused | None:
        """Execute for a viewer, at once or when it is the user's turn. Returns the same as `_render`."""
        return self._render(caller) if self._slots.try_start(caller.user_id) else self._render_later(caller)

    async def _render_later(self, caller: Caller) -> RequestRefused | None:
        await self._slots.start(caller.user_id)
        outcome = self._render(caller)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def _render(self, caller: Caller) -> Awaitable[RequestRefused | None] | RequestRefused | None:
        """Execute for a viewer, in a slot, which ends with the execution.

        Returns the failure, or None; an awaitable of it if the execution has to wait.
        """
        self._executions += 1
        viewer, user = TrackedViewer(caller, is_shared=True), caller.user_id
        began = perf_counter()
        try:
            response = self._execute(self._convert(self.payload), viewer, user)
        except Exception as failure:
            self._slots.end(user)
            self._charge(viewer, caller)
            return refusal_for(failure)
        finally:
            self._slots.count_time(user, perf_counter() - began)
        if isinstance(response, bytes):
            self._slots.end(user)
            self._keep(viewer, caller, response)
            return None
        return self._finish_rendering(viewer, caller, response)

    async def _finish_rendering(
        self, viewer: TrackedViewer, caller: Caller, response: Awaitable[bytes]
    ) -> RequestRefused | None:
        try:
            self._keep(viewer, caller, await response)
        except Exception as failure:
            self._charge(viewer, caller)
            return refusal_for(failure)
        finally:
            self._slots.end(caller.user_id)
        return None

    def _charge(self, viewer: TrackedViewer, caller: Caller) -> None:
        self._cost.charge(caller.user_id, viewer.values, is_own=self._is_own)

    def _keep(self, viewer: TrackedViewer, caller: Caller, response: bytes) -> None:
        """Keep a response for all viewers with the same values of the dependencies that were recorded."""
        self._charge(viewer, caller)
        template = ResponseTemplate(response)
        dependencies = tuple(viewer.dependencies)
        if not dependencies:
            self._result_for_all = template
            return
        for results in self._results:
            if results.dependencies == dependencies:
                break
        else:
            results = ResultsByViewer(dependencies)
            self._results.append(results)
        results.add(caller, template)

    async def _notify(self, failure: RequestRefused | None) -> None:
        """Notify the waiters whose response is known; after a failure, all of them."""
        waiters, self._waiters = self._waiters, []
        for index, waiter in enumerate(waiters, start=1):
            result = self.find(waiter.caller) or failure
            if result is None:
                self._waiters.append(waiter)
            else:
                self._slots.remove_waiting(waiter.caller.user_id)
                try:
                    waiter.on_rendered(result)
                except Exception:
                    _log.exception("subscriber_failed")
            if index % _NOTIFICATIONS_PER_TURN == 0:
                await asyncio.sleep(0)


class ResponseStream:
    """A subscription's responses: each event rendered with its selection and the subscriber's own cursor.

    A live event goes through the whole stream in one call, from the hub to the sink, if it can be rendered and written
    at once. Otherwise it waits: one event here, the later ones in the mailbox.
    """

    __slots__ = ("_costs", "_event", "_on_ready", "_rendering", "_result", "_selection", "_sink", "_source", "caller")

    def __init__(self, selection: SharedSelection, source: Source, caller: Caller, costs: SubscriptionCosts) -> None:
        """Create the responses to a subscription that is counted in `costs` until it is closed."""
        self.caller = caller
        self._costs = costs
        self._selection = selection
        self._source: Source | None = source
        self._event: LiveEvent | None = None
        self._rendering: Rendering | None = None
        self._result: RenderResult | None = None
        self._on_ready: Callable[[], None] | None = None
        self._sink: ResponseSink | None = None

    def on_ready(self, call: Callable[[], None]) -> None:
        """Set the function to call when `take` has returned None and may return a response again."""
        self._on_ready = call
        if self._source is not None:
            self._source.stream.on_ready(self._on_event)

    def _on_event(self) -> None:
        # Later events wait for the event that is being rendered.
        if self._rendering is None and self._on_ready is not None:
            self._on_ready()

    def write_to(self, sink: ResponseSink) -> None:
        """From the time when `take` has returned None, write responses to a sink while it is writable."""
        self._sink = sink
        if self._source is not None:
            self._source.stream.hand_over_to(self)

    @property
    def is_ready(self) -> bool:
        """True if no event waits here and the sink is writable."""
        return self._event is None and self._sink is not None and self._sink.is_writable

    def receive(self, payload: LivePayload, cursor: Position) -> None:
        """Write the response to an event, or begin to render it."""
        source, sink = self._source, self._sink
        assert source is not None and sink is not None
        result = self._find_response(payload, source)
        if isinstance(result, ResponseTemplate):
            sink.write(result.fill(source.cursors.encode(cursor)) if result.needs_cursor else result.fill())
            return
        if result is DROPPED:
            source.stream.drop(cursor)
            return
        self._event, self._result = LiveEvent(payload, cursor), result
        if result is not None:
            self._on_event()

    def on_rendered(self, result: RenderResult) -> None:
        """Take the result for the event that is being rendered."""
        self._rendering = None
        self._result = result
        if self._on_ready is not None:
            self._on_ready()

    def take(self) -> bytes | None:
        """Return the next response, encoded; None if there is none. Raises StreamEnded and RequestRefused."""
        source = self._source
        if source is None:
            raise StreamEnded
        if self._rendering is not None:
            return None
        while True:
            if self._event is None:
                try:
                    self._event = source.stream.take()
                except Exception as failure:
                    raise refusal_for(failure) from failure
                if self._event is None:
                    return None
            event = self._event
            result = self._result or self._find_response(event.payload, source)
            if result is None:
                return None
            if result is not DROPPED and source.stream.still_shows(event.payload):
                break
            self._event = self._result = None
            if result is DROPPED and event.cursor is not None:
                source.stream.drop(event.cursor)
        if isinstance(result, RequestRefused):
            raise refusal_for(result)
        self._event = self._result = None
        if result.needs_cursor and event.cursor is not None:
            return result.fill(source.cursors.encode(event.cursor))
        return result.fill()

    def _find_response(self, payload: LivePayload, source: Source) -> RenderResult | Dropped | None:
        """Return the response to an event, or the failure. Return None if `on_rendered` gets it later.

        Return DROPPED if too many events of the user wait: the subscriber loses it, as one that reads too slowly.
        """
        rendering = self._selection.rendering(payload, source.convert, is_own=source.stream.is_catching_up)
        result = rendering.find(self.caller) or self._find_refusal() or rendering.render_for(self)
        if result is None:
            self._rendering = rendering
        return result

    def _find_refusal(self) -> RequestRefused | None:
        """Return the error for a user whose events have cost too much."""
        try:
            self._selection.cost.check(self.caller.user_id)
        except RateLimited as rate_limited:
            return refusal_for(rate_limited)
        return None

    def close(self) -> None:
        """End the subscription."""
        if self._source is not None:
            self._costs.close(self.caller.user_id, self._selection.cost)
            self._source.stream.close()
        self._source = self._event = self._rendering = self._result = self._on_ready = self._sink = None
