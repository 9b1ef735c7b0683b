"""Results of the script `apply`: the effects of changes on a user's cached state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from store.base.ids import ConversationId, UserId
from store.sessions.session import Session, session_from


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The effect of a change on a user's cached state.

    Attributes:
        changed: False if the change was applied before or changes nothing (then `sessions` has the session), or if the
            state is not cached (then `sessions` is empty).
        epoch: The cached state's epoch.
        routes: The servers that hold connections of the user.
        sessions: All sessions that moved, gateways last. Empty for a change in a channel while the user's sessions in
            channels are not cached: the log has the event, and MongoDB the session.
        tick: The event's position on the user's clock.
        previous: The tick before it in the user's chain of events.
        total_unread: The user's total afterwards; not known (0) for an own message that was appended.
        old_read_seq: Read position before; -1 if the change does not move it.
        old_unread: Messages that were unread before; -1 if some that are not applied yet may be the user's own.
    """

    changed: bool
    epoch: str
    routes: tuple[str, ...]
    sessions: tuple[Session, ...]
    tick: int
    previous: int
    total_unread: int
    old_read_seq: int
    old_unread: int

    @property
    def session(self) -> Session | None:
        """The session that was changed."""
        return self.sessions[0] if self.sessions else None

    def following(self, number: int) -> ApplyResult:
        """Return the result of the n-th event after this one, which changes no session. number: n, from 1."""
        return replace(self, sessions=(), tick=self.tick + number, previous=self.tick + number - 1)


NOT_CACHED = ApplyResult(False, "", (), (), 0, 0, 0, -1, 0)


def parse_result(user: UserId, answer: Sequence[Any]) -> ApplyResult:
    """Return the result of the only change of a call."""
    return parse_results(user, answer)[0]


def parse_results(user: UserId, answer: Sequence[Any]) -> list[ApplyResult]:
    """Return a result for each change of a call, or a single NOT_CACHED for all of them."""
    if answer[0] != b"ok":
        return [NOT_CACHED]
    _, epoch, routes, *outcomes = answer
    servers = tuple(route.decode() for route in routes)
    return [parse_outcome(user, epoch.decode(), servers, outcome) for outcome in outcomes]


def parse_outcome(user: UserId, epoch: str, servers: Sequence[str], outcome: Sequence[Any]) -> ApplyResult:
    """Return the result of one change. servers: those that hold connections of the user."""
    status, tick, previous, total, old_read, old_unread, *records = outcome
    sessions = (
        session_from(user, ConversationId(records[i].decode()), records[i + 1])
        for i in range(0, len(records), 2)
        if records[i + 1]
    )
    return ApplyResult(
        changed=status == b"ok",
        epoch=epoch,
        routes=tuple(servers),
        sessions=tuple(sessions),
        tick=int(tick),
        previous=int(previous),
        total_unread=total,
        old_read_seq=old_read,
        old_unread=old_unread,
    )


def parse_own_message(
    user: UserId,
    conversation: ConversationId,
    epoch: str,
    servers: Sequence[str],
    previous: int,
    outcome: Sequence[Any],
) -> ApplyResult:
    """Return the result of a user's own message that was appended (`_append.lua`)."""
    _, tick, old_read, old_unread, record = outcome
    return ApplyResult(
        changed=True,
        epoch=epoch,
        routes=tuple(servers),
        sessions=(session_from(user, conversation, record),),
        tick=tick,
        previous=previous,
        total_unread=0,
        old_read_seq=old_read,
        old_unread=old_unread,
    )


def event_result(epoch: str, servers: Sequence[str], tick: int, previous: int) -> ApplyResult:
    """Return the result of an event that was appended and changes no session (`_append.lua`)."""
    return ApplyResult(
        changed=True,
        epoch=epoch,
        routes=tuple(servers),
        sessions=(),
        tick=tick,
        previous=previous,
        total_unread=0,
        old_read_seq=-1,
        old_unread=0,
    )
