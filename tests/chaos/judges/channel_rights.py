"""Judges what users were shown in channels, and what they sent there, by the rights that they had at that time.

The changes of rights are in the history. Changes for one user and channel come one after the other. So the value of
each is certain from its answer until the next change begins. A change without an answer may take effect later: for a
while after it nothing is certain.

- shown without a right: a message was shown while its user could not see the channel. Events may be under way for a
  while, so for them the message also has to be newer than the loss of the right.
- sent without a right: a message got in that its sender was not permitted to send.
- refused with a right: a request of a user who had the right was refused, or its answer was null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from tests.chaos.judges.history import Json
from tests.chaos.judges.record import Record, Try, Violation

_LATE_SECONDS = 35.0
"""A request without an answer may take effect this long after it began."""

_REFUSALS = frozenset({"FORBIDDEN", "NOT_FOUND", "NOT_A_MEMBER", "ARCHIVED"})

Key = tuple[str, ...]
"""A fact: of a user in a workspace or a channel, or of a channel."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A try that makes a fact true or false. is_certain: it was answered, so the fact has the value from then on."""

    began: float
    ended: float
    value: bool
    is_certain: bool


class ChannelRights:
    """Facts about rights that are certain at any time of a run."""

    def __init__(self, record: Record) -> None:
        self._changes: defaultdict[Key, list[_Change]] = defaultdict(list)
        self.private = {c.id for c in record.channels.values() if c.is_private}
        self.owners: dict[str, str] = {}
        self._needs_writer: set[str] = set()
        for tried in record.tries:
            self._take(tried)

    def can_see(self, user: str, channel: str, begin: float, end: float) -> bool | None:
        """Return whether a user could see a channel all the time, or never; None if neither is certain."""
        workspace = workspace_of(channel)
        parts = [self._find(("member", workspace, user), begin, end)]
        if channel in self.private:
            parts.append(self._find(("inside", channel, user), begin, end))
        if self.owners.get(workspace) != user:
            parts.append(_negated(self._find(("hidden", channel, user), begin, end)))
        return _all(parts)

    def may_send(self, user: str, channel: str, begin: float, end: float) -> bool | None:
        """Return whether a user was permitted to send all the time, or never; None if neither is certain."""
        workspace = workspace_of(channel)
        parts = [self.can_see(user, channel, begin, end), _negated(self._find(("archived", channel), begin, end))]
        if channel in self._needs_writer and self.owners.get(workspace) != user:
            parts.append(self._find(("writer", workspace, user), begin, end))
        return _all(parts)

    def is_member(self, user: str, workspace: str, begin: float, end: float) -> bool | None:
        """Return whether a user was a member of a workspace all the time, or never; None if neither is certain."""
        return self._find(("member", workspace, user), begin, end)

    def _find(self, key: Key, begin: float, end: float) -> bool | None:
        """Return the value of a fact during a time; None if it is not certain."""
        changes = self._changes.get(key, ())
        certain = [change for change in changes if change.is_certain and change.ended <= begin]
        value, since = (certain[-1].value, certain[-1].began) if certain else (False, -inf)
        overlapping = (change for change in changes if change.ended > since and change.began < end)
        return value if all(change.value == value for change in overlapping) else None

    def _take(self, tried: Try) -> None:
        if tried.operation == "createWorkspace" and tried.succeeded and isinstance(tried.value, dict):
            self.owners[tried.value["id"]] = tried.user
        given = tried.variables
        denied = given.get("deny", ())
        if tried.operation == "setPermissionOverwrite" and given.get("role") and "SEND_MESSAGES" in denied:
            self._needs_writer.add(given["channel"])
        ended = tried.answered if tried.code not in ("lost", "UNAVAILABLE") else tried.invoked + _LATE_SECONDS
        for key, value in self._effects(tried):
            self._changes[key].append(_Change(tried.invoked, ended, value, tried.succeeded))

    def _effects(self, tried: Try) -> Iterator[tuple[Key, bool]]:
        """Yield the facts that a try makes true or false, or may have."""
        given, user = tried.variables, tried.user
        may_be_done = tried.succeeded or tried.code in ("lost", "UNAVAILABLE")
        if not may_be_done:
            return
        match tried.operation:
            case "createWorkspace" if isinstance(tried.value, dict):
                yield ("member", tried.value["id"], user), True
            case "joinWorkspace":
                yield ("member", given["id"], user), True
            case "leaveWorkspace":
                yield ("member", given["id"], user), False
                yield ("writer", given["id"], user), False
                for channel in self.private:
                    if workspace_of(channel) == given["id"]:
                        yield ("inside", channel, user), False
            case "setMemberRoles":
                yield ("writer", given["id"], given["user"]), bool(given["roles"])
            case "setPermissionOverwrite" if given.get("user"):
                yield ("hidden", given["channel"], given["user"]), bool(given.get("deny"))
            case "createChannel" if isinstance(tried.value, dict):
                for member in (user, *given["input"].get("memberIds", ())):
                    yield ("inside", tried.value["id"], member), True
            case "addToChannel":
                for member in given["users"]:
                    yield ("inside", given["id"], member), True
            case "removeFromChannel":
                yield ("inside", given["id"], given["user"]), False
            case "archiveChannel":
                yield ("archived", given["id"]), given["archived"]


def workspace_of(channel: str) -> str:
    """Return the workspace of a channel."""
    return f"w_{channel[2:].partition('.')[0]}"


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: list[bool | None]) -> bool | None:
    """Return whether all are true; None if it is not certain."""
    if any(value is False for value in values):
        return False
    return None if any(value is None for value in values) else True


def judge_channels(record: Record) -> list[Violation]:
    """Return all violations."""
    rights = ChannelRights(record)
    judges = (shown_without_a_right, sent_without_a_right, refused_with_a_right)
    return [violation for judge in judges for violation in judge(record, rights)]


def shown_without_a_right(record: Record, rights: ChannelRights) -> Iterator[Violation]:
    """Find messages that were shown to users who could not see the channel."""
    sent = {
        tried.value["message"]["id"]: min(t.invoked for t in tries)
        for tries in record.attempts().values()
        for tried in tries
        if tried.succeeded and isinstance(tried.value, dict)
    }
    for seen in record.messages:
        channel, id = seen.conversation, seen.message["id"]
        if not channel.startswith("c_"):
            continue
        since = seen.asked if seen.asked != -inf else sent.get(id)
        if since is not None and rights.can_see(seen.user, channel, since, seen.at) is False:
            text = f"{seen.user} was shown {id} of {channel}, {seen.source}, between {since} and {seen.at}"
            yield Violation("shown without a right", text)


def sent_without_a_right(record: Record, rights: ChannelRights) -> Iterator[Violation]:
    """Find messages that got in although their senders were not permitted to send."""
    for (user, text), tries in record.attempts().items():
        answered = [tried for tried in tries if tried.succeeded and isinstance(tried.value, dict)]
        if not answered:
            continue
        first = min(answered, key=lambda tried: tried.answered)
        assert isinstance(first.value, dict)
        channel, began = first.value["message"]["conversationId"], min(tried.invoked for tried in tries)
        if channel.startswith("c_") and rights.may_send(user, channel, began, first.answered) is False:
            yield Violation("sent without a right", f"{text!r} of {user} in {channel}, try {first.id}, from {began}")


def refused_with_a_right(record: Record, rights: ChannelRights) -> Iterator[Violation]:
    """Find requests of users with the right that were refused, or answered with null."""
    for tried in record.tries:
        channel = _channel_of(tried)
        if not channel.startswith("c_") or tried.code in ("lost", "UNAVAILABLE"):
            continue
        began, ended = tried.invoked, tried.answered
        shown = f"try {tried.id} of {tried.device} in {channel}: {tried.code} {tried.value}"
        if tried.operation == "sendMessage":
            if tried.code in _REFUSALS and rights.may_send(tried.user, channel, began, ended):
                yield Violation("refused with a right", shown)
        elif tried.operation in ("messages", "channel"):
            is_null = tried.value is None and tried.succeeded
            can_see = rights.can_see(tried.user, channel, began, ended)
            if is_null and can_see:
                yield Violation("refused with a right", shown)
            elif not is_null and tried.succeeded and can_see is False:
                yield Violation("shown without a right", shown)


def _channel_of(tried: Try) -> str:
    given: Json = tried.variables
    return str((given.get("input") or given).get("conversationId") or given.get("id") or "")
