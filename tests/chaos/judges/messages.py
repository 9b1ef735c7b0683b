"""Judges what clients received of messages: none is lost or duplicated, each keeps its seq, and all have one order.

- lost: acknowledged, and not stored at the acknowledged seq; or not in the sender's own history at the end.
- duplicated: one message of a client is stored twice, or one key was answered with two messages.
- vanished: shown to a client, and not stored.
- moved: one message at two seqs, or two messages at one seq.
- out of order: a page out of order; or a message with a lower seq than one that was acknowledged before its first try.
- missing: acknowledged before a client asked for a page that spans its seq, and not in the page. After the death of a
  server, the answer to a repeated send may come before another server has finished the fan-out: a known limit,
  `missing after a replay`.
- outside: shown to a user who was no member at that seq. A departure from a workspace holds from its answer on: what
  was asked for, or sent, before that may be shown.
- key: its idempotency key was shown to another user, or the sender was shown another key.
- revived: shown in a form from before an edit or a recall that was acknowledged before the request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import inf

from tests.chaos.judges.channel_rights import workspace_of
from tests.chaos.judges.history import Json
from tests.chaos.judges.record import Record, Try, Violation

MISSING_AFTER_REPLAY = "missing after a replay"
KNOWN_LIMITS = frozenset({MISSING_AFTER_REPLAY})
"""Kinds that are counted, and are no problem."""


def judge_messages(record: Record) -> list[Violation]:
    """Return all violations."""
    judges = (lost, duplicated, vanished, moved, out_of_order, missing, outside, key, revived)
    return [violation for judge in judges for violation in judge(record)]


def _acknowledged(record: Record) -> Iterator[tuple[Try, Json]]:
    for tried in record.sends():
        if tried.succeeded and isinstance(tried.value, dict):
            yield tried, tried.value["message"]


def lost(record: Record) -> Iterator[Violation]:
    """Find acknowledged messages that are not stored."""
    for tried, message in _acknowledged(record):
        row = record.stored.get(message["id"])
        acknowledged = (message["conversationId"], message["seq"], tried.user)
        if row is None or (row["conversation"], row["seq"], row["sender"]) != acknowledged:
            yield Violation("lost", f"try {tried.id} of {tried.device} was answered {message}, stored is {row}")
            continue
        history = record.fresh.get(tried.user, {}).get("histories", {}).get(message["conversationId"])
        if history is not None and all(other["id"] != message["id"] for other in history):
            yield Violation("lost", f"{message} of {tried.user}, try {tried.id}, is not in their own history")


def duplicated(record: Record) -> Iterator[Violation]:
    """Find messages that are stored or answered twice."""
    stored: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    copies: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in record.stored.values():
        if row["kind"] != "SYSTEM":
            # A reply with broadcast is stored once in its thread, and once in the conversation.
            (copies if row.get("copy") else stored)[row["sender"], row["key"] or row["text"]].add(row["id"])
    for (user, text), tries in record.attempts().items():
        answered = {t.value["message"]["id"] for t in tries if t.succeeded and isinstance(t.value, dict)}
        ids = answered | stored[user, text]
        if len(ids) > 1 or len(copies[user, text]) > len(ids):
            spans = [(t.id, t.invoked, t.answered, t.code) for t in tries]
            yield Violation(
                "duplicated", f"{text!r} of {user} is {sorted(ids)}, answered {sorted(answered)}; tries {spans}"
            )


def vanished(record: Record) -> Iterator[Violation]:
    """Find messages that a client saw and that are not stored."""
    gone: dict[str, str] = {}
    for seen in record.messages:
        id = seen.message["id"]
        if id not in record.stored:
            gone.setdefault(id, f"{seen.message} in {seen.conversation} was shown to {seen.user}, {seen.source}")
    yield from (Violation("vanished", text) for text in gone.values())


def moved(record: Record) -> Iterator[Violation]:
    """Find messages with two seqs, and seqs with two messages."""
    places: dict[str, tuple[str, int]] = {}
    taken: dict[tuple[str, int], str] = {}
    found: set[str] = set()
    stored = ((row["conversation"], row["seq"], id, "stored") for id, row in record.stored.items())
    shown = ((s.conversation, s.message["seq"], s.message["id"], f"{s.user}, {s.source}") for s in record.messages)
    for conversation, seq, id, source in [*stored, *shown]:
        place = (conversation, seq)
        if places.setdefault(id, place) != place and id not in found:
            found.add(id)
            yield Violation("moved", f"{id} is at {places[id]} and, {source}, at {place}")
        if taken.setdefault(place, id) != id and id not in found:
            found.add(id)
            yield Violation("moved", f"at {place} are {taken[place]} and, {source}, {id}")


def out_of_order(record: Record) -> Iterator[Violation]:
    """Find pages out of order, and messages before those that were acknowledged earlier."""
    for tried in record.tries:
        if tried.operation == "messages" and isinstance(tried.value, dict):
            seqs = [edge["node"]["seq"] for edge in tried.value["edges"]]
            if seqs != sorted(set(seqs)):
                yield Violation("out of order", f"try {tried.id} of {tried.device} was answered {seqs}")
    first_tried = {(user, text): min(t.invoked for t in tries) for (user, text), tries in record.attempts().items()}
    answered: defaultdict[str, dict[str, tuple[float, float, int, int]]] = defaultdict(dict)
    for tried, message in _acknowledged(record):
        began = first_tried[tried.user, tried.variables["input"]["content"]]
        known = answered[message["conversationId"]].get(message["id"])
        ended = min(known[1], tried.answered) if known else tried.answered
        answered[message["conversationId"]][message["id"]] = (began, ended, message["seq"], tried.id)
    for conversation, messages in answered.items():
        ends = sorted((ended, seq, tried) for _, ended, seq, tried in messages.values())
        highest: list[tuple[int, int]] = []
        for _, seq, number in ends:
            highest.append(max(highest[-1], (seq, number)) if highest else (seq, number))
        for began, _, seq, number in messages.values():
            before = bisect_left(ends, (began, -1, -1))
            if before and highest[before - 1][0] > seq:
                other = highest[before - 1]
                text = f"{conversation}: try {number}, begun at {began}, got {seq}; try {other[1]} had got {other[0]}"
                yield Violation("out of order", text)


def missing(record: Record) -> Iterator[Violation]:
    """Find pages without a message that was acknowledged before."""
    answered: defaultdict[str, list[tuple[float, int, str, str]]] = defaultdict(list)
    first: set[str] = set()
    for tried, message in sorted(_acknowledged(record), key=lambda pair: pair[0].answered):
        assert isinstance(tried.value, dict)
        if not tried.value["replayed"] or not record.disturbed:
            first.add(message["id"])
        kind = "missing" if message["id"] in first else MISSING_AFTER_REPLAY
        answered[message["conversationId"]].append((tried.answered, message["seq"], message["id"], kind))
    for tried in record.tries:
        if tried.operation != "messages" or not tried.succeeded or not isinstance(tried.value, dict):
            continue
        name, nodes = tried.variables["id"], [edge["node"] for edge in tried.value["edges"]]
        if not nodes:
            continue
        found = {node["id"] for node in nodes}
        last = nodes[-1]["seq"] if tried.value["pageInfo"]["hasNextPage"] else inf
        for at, seq, id, kind in answered[name]:
            due = at < tried.invoked and nodes[0]["seq"] <= seq <= last and id not in found
            if due and record.readable(tried.user, name, seq):
                text = f"try {tried.id} of {tried.device}, {name}: {id} at {seq}, acknowledged at {at}"
                yield Violation(kind, text)


def outside(record: Record) -> Iterator[Violation]:
    """Find messages that a user saw outside their membership."""
    found: set[tuple[str, str, int]] = set()
    departures = [tried for tried in record.tries if tried.operation == "leaveWorkspace"]
    sent = {
        tried.value["message"]["id"]: min(t.invoked for t in tries)
        for tries in record.attempts().values()
        for tried in tries
        if tried.succeeded and isinstance(tried.value, dict)
    }
    for seen in record.messages:
        place = (seen.user, seen.conversation, seen.message["seq"])
        if place in found or (seen.conversation in record.full and _ever_member(record, *place)):
            continue
        began = seen.asked if seen.asked != -inf else sent.get(seen.message["id"], inf)
        is_leaving = any(
            tried.user == seen.user and tried.invoked < seen.at and began < tried.answered
            for tried in departures
            if seen.conversation.startswith("c_") and workspace_of(seen.conversation) == tried.variables["id"]
        )
        was_member = any(first <= place[2] for first, _ in record.intervals.get(f"{place[1]} {place[0]}", ()))
        if not record.readable(*place) and not (is_leaving and was_member):
            found.add(place)
            member = record.intervals.get(f"{seen.conversation} {seen.user}")
            text = f"{seen.user} was shown {seen.conversation} {seen.message}, {seen.source}, member in {member}"
            yield Violation("outside", text)


def _ever_member(record: Record, user: str, conversation: str, seq: int) -> bool:
    """Return whether a member of a group with FULL history may read a seq: all up to where they last left."""
    intervals = record.intervals.get(f"{conversation} {user}")
    return intervals is not None and seq <= intervals[-1][1]


def key(record: Record) -> Iterator[Violation]:
    """Find idempotency keys that were shown to another user than the sender."""
    keys = {message["id"]: tried.variables["input"].get("idempotencyKey") for tried, message in _acknowledged(record)}
    for seen in record.messages:
        message = seen.message
        if "idempotencyKey" in message and message["id"] in keys:
            expected = keys[message["id"]] if message["sender"]["id"] == seen.user else None
            if message["idempotencyKey"] != expected:
                yield Violation("key", f"{seen.user} was shown the key of {message}, {seen.source}: not {expected!r}")


def revived(record: Record) -> Iterator[Violation]:
    """Find messages in a form from before an acknowledged edit or recall."""
    recalls: dict[str, float] = {}
    edits: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for tried in record.tries:
        if not tried.succeeded or not isinstance(tried.value, dict):
            continue
        if tried.operation == "recallMessage":
            recalls[tried.variables["id"]] = min(tried.answered, recalls.get(tried.variables["id"], inf))
        elif tried.operation == "editMessage":
            edits[tried.variables["id"]].append((tried.answered, tried.value["editCount"]))
    for seen in record.messages:
        message, id = seen.message, seen.message["id"]
        if "state" not in message:
            continue
        shown = f"was shown to {seen.user}, {seen.source}: {message}"
        if recalls.get(id, inf) < seen.asked and message["state"] != "RECALLED":
            yield Violation("revived", f"{id}, recalled at {recalls[id]}, {shown}")
        edited = max((count for at, count in edits.get(id, ()) if at < seen.asked), default=0)
        if message["editCount"] < edited:
            yield Violation("revived", f"{id}, edited {edited} times, {shown}")
