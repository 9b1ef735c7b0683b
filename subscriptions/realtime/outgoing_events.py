"""The events that one step produced, grouped by the server that holds the recipients' connections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from store.base.ids import ConversationId, UserId
from store.sessions.apply_messages import EventRecipient, FanoutResult
from store.sessions.apply_results import ApplyResult
from store.sessions.session_rows import Tick
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.events.sessions import SessionChanged


class OutgoingEvents:
    """Collects events, and the ticks that MongoDB has to store. `Bus.send` takes both."""

    def __init__(self) -> None:
        self._by_server: defaultdict[str, list[tuple[Event | None, list[EventRecipient]]]] = defaultdict(list)
        self.ticks: list[Tick] = []

    def add(
        self,
        event: Event | None,
        outcomes: Sequence[tuple[UserId, ApplyResult]],
        *,
        stored_at: int | Mapping[ConversationId, int] = 0,
        has_own_write_ts: bool = False,
    ) -> None:
        """Add an event for all users whose state it changed.

        Args:
            event: None if there is nothing to see; then only the users' clocks move.
            outcomes: The users and the results of the change. Unchanged ones are skipped.
            stored_at: The times (ms) of the change that MongoDB has. Other ticks are stored too, so that clocks do not
                go back if the cache is lost.
            has_own_write_ts: True if writeTs is one of these times.
        """
        changed = [pair for pair in outcomes if pair[1].changed]
        complete = changed
        if event is None or isinstance(event, SessionChanged):
            # Sessions in channels may not be cached. Then the log has the event, and hubs read the sessions.
            complete = [pair for pair in changed if pair[1].sessions]
            self._wake_up([pair for pair in changed if not pair[1].sessions])
        self._add_recipients(event, complete)
        for user, applied in changed:
            self.ticks += _ticks_to_store(user, applied, stored_at, has_own_write_ts)

    def add_message(self, event: MessageCreated, result: FanoutResult, at_ms: int) -> None:
        """Add a message for all users whose sessions it changed. at_ms: the commit timestamp."""
        for user, outcome in result.others:
            if outcome.changed:
                for server in outcome.routes:
                    result.recipients_on(server).append((user, outcome.epoch, outcome.tick, outcome.previous))
                self.ticks += _ticks_to_store(user, outcome, at_ms, False)
        self.ticks += result.ticks
        for server, recipients in result.recipients.items():
            self._by_server[server].append((event, recipients))

    def add_positions(self, outcomes: Iterable[tuple[UserId, ApplyResult]]) -> None:
        """Add the positions of users' clocks, so that hubs find missed events."""
        self._add_recipients(None, outcomes)

    def _wake_up(self, outcomes: Iterable[tuple[UserId, ApplyResult]]) -> None:
        """Make hubs read the logs of users."""
        for user, applied in outcomes:
            for server in applied.routes:
                self._by_server[server].append((None, [(user, "", 0, 0)]))

    def _add_recipients(self, event: Event | None, outcomes: Iterable[tuple[UserId, ApplyResult]]) -> None:
        by_server: defaultdict[str, list[EventRecipient]] = defaultdict(list)
        for user, applied in outcomes:
            for server in applied.routes:
                by_server[server].append((user, applied.epoch, applied.tick, applied.previous))
        for server, recipients in by_server.items():
            self._by_server[server].append((event, recipients))

    def items(self) -> Iterable[tuple[str, list[tuple[Event | None, list[EventRecipient]]]]]:
        """Return the events for each server, each with its recipients."""
        return self._by_server.items()


def _ticks_to_store(
    user: UserId, applied: ApplyResult, stored_at: int | Mapping[ConversationId, int], has_own_write_ts: bool
) -> Iterable[Tick]:
    """Yield the ticks that cannot be derived from the times in MongoDB."""
    newest_inside: dict[str | None, int] = {}
    for session in applied.sessions:
        at = session.active_ts
        if at <= applied.previous:
            continue
        newest_inside[session.sub_biz] = at
        if session.is_gateway and at == newest_inside.get(session.conversation.removeprefix("b_"), at) + 1:
            # Loading the state gives the gateway the same tick.
            continue
        stored = stored_at if isinstance(stored_at, int) else stored_at.get(session.conversation)
        is_own_time = session.frozen or (has_own_write_ts and session.write_ts != stored)
        if is_own_time and not session.comes_from_head:
            # Loading the state would use the conversation's times, which may be later than this session's.
            yield Tick(user, session.conversation, at, session.write_ts)
        elif at != stored:
            yield Tick(user, session.conversation, at)
