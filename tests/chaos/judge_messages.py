"""What clients were told of messages, judged: none is lost or doubled, each has one place for good, and all agree on the order.

- lost: acknowledged, and not stored where it was said to be; or not in the sender's own history in the end.
- doubled: one message of a client is stored twice, or one key was answered with two messages. Where Redis lost what it held of the
  sender between the first try and the last answer, the key may have been lost with it: a known limit, `doubled with the key's loss`.
- vanished: somebody was shown it, and it is not stored.
- moved: two places for one message, or two messages at one place.
- disordered: a page out of order; or a message that has a lower place than one that had been acknowledged before it was first tried.
- missing: acknowledged before somebody asked for a page that spans its place, and not in it.
- outside: shown to somebody who was no member at that place.
- key: its idempotency key was shown to somebody else, or its sender was shown another one.
- revived: shown as it was before an edit or a recall that had been acknowledged before it was asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from math import inf

from tests.chaos.history import Json
from tests.chaos.record import Record, Try, Violation

KNOWN_LIMIT = "doubled with the key's loss"


def judge_messages(record: Record) -> list[Violation]:
    """All of it."""
    judges = (lost, doubled, vanished, moved, disordered, missing, outside, key, revived)
    return [violation for judge in judges for violation in judge(record)]


def _acknowledged(record: Record) -> Iterator[tuple[Try, Json]]:
    for tried in record.sends():
        if tried.done and isinstance(tried.value, dict):
            yield tried, tried.value["message"]


def lost(record: Record) -> Iterator[Violation]:
    for tried, message in _acknowledged(record):
        row = record.stored.get(message["id"])
        said = (message["conversationId"], message["seq"], tried.user)
        if row is None or (row["conversation"], row["seq"], row["sender"]) != said:
            yield Violation("lost", f"try {tried.id} of {tried.who} was answered {message}, stored is {row}")
            continue
        shown = record.fresh.get(tried.user, {}).get("histories", {}).get(message["conversationId"])
        if shown is not None and all(other["id"] != message["id"] for other in shown):
            yield Violation("lost", f"{message} of {tried.user}, try {tried.id}, is not in their own history")


def doubled(record: Record) -> Iterator[Violation]:
    stored: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in record.stored.values():
        if row["kind"] != "SYSTEM":
            stored[row["sender"], row["key"] or row["text"]].add(row["id"])
    for (user, text), tries in record.attempts().items():
        told = {t.value["message"]["id"] for t in tries if t.done and isinstance(t.value, dict)}
        ids = told | stored[user, text]
        if len(ids) > 1:
            began, ended = min(t.invoked for t in tries), max(t.answered for t in tries)
            excused = record.lost_between(began, ended, user) and "idempotencyKey" in tries[0].vars["input"]
            kind = KNOWN_LIMIT if excused else "doubled"
            spans = [(t.id, t.invoked, t.answered, t.code) for t in tries]
            yield Violation(kind, f"{text!r} of {user} is {sorted(ids)}, answered {sorted(told)}; tries {spans}")


def vanished(record: Record) -> Iterator[Violation]:
    gone: dict[str, str] = {}
    for shown in record.shown:
        id = shown.message["id"]
        if id not in record.stored:
            gone.setdefault(id, f"{shown.message} in {shown.conversation} was shown to {shown.user}, {shown.how}")
    yield from (Violation("vanished", text) for text in gone.values())


def moved(record: Record) -> Iterator[Violation]:
    places: dict[str, tuple[str, int]] = {}
    held: dict[tuple[str, int], str] = {}
    found: set[str] = set()
    stored = ((row["conversation"], row["seq"], id, "stored") for id, row in record.stored.items())
    told = ((s.conversation, s.message["seq"], s.message["id"], f"{s.user}, {s.how}") for s in record.shown)
    for conversation, seq, id, how in [*stored, *told]:
        place = (conversation, seq)
        if places.setdefault(id, place) != place and id not in found:
            found.add(id)
            yield Violation("moved", f"{id} is at {places[id]} and, {how}, at {place}")
        if held.setdefault(place, id) != id and id not in found:
            found.add(id)
            yield Violation("moved", f"at {place} are {held[place]} and, {how}, {id}")


def disordered(record: Record) -> Iterator[Violation]:
    for tried in record.tries:
        if tried.op == "messages" and isinstance(tried.value, dict):
            seqs = [edge["node"]["seq"] for edge in tried.value["edges"]]
            if seqs != sorted(set(seqs)):
                yield Violation("disordered", f"try {tried.id} of {tried.who} was answered {seqs}")
    first_tried = {(user, text): min(t.invoked for t in tries) for (user, text), tries in record.attempts().items()}
    answered: defaultdict[str, dict[str, tuple[float, float, int, int]]] = defaultdict(dict)
    for tried, message in _acknowledged(record):
        began = first_tried[tried.user, tried.vars["input"]["content"]]
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
                yield Violation(
                    "disordered",
                    f"{conversation}: try {number}, begun at {began}, got {seq}, and try {other[1]} had {other[0]} before",
                )


def missing(record: Record) -> Iterator[Violation]:
    answered: defaultdict[str, list[tuple[float, int, str]]] = defaultdict(list)
    for tried, message in _acknowledged(record):
        answered[message["conversationId"]].append((tried.answered, message["seq"], message["id"]))
    for tried in record.tries:
        if tried.op != "messages" or not tried.done or not isinstance(tried.value, dict):
            continue
        name, nodes = tried.vars["id"], [edge["node"] for edge in tried.value["edges"]]
        if not nodes:
            continue
        held = {node["id"] for node in nodes}
        last = nodes[-1]["seq"] if tried.value["pageInfo"]["hasNextPage"] else inf
        for at, seq, id in answered[name]:
            due = at < tried.invoked and nodes[0]["seq"] <= seq <= last and id not in held
            if due and record.readable(tried.user, name, seq):
                yield Violation("missing", f"try {tried.id} of {tried.who}, {name}: {id} at {seq}, known since {at}")


def outside(record: Record) -> Iterator[Violation]:
    found: set[tuple[str, str, int]] = set()
    for shown in record.shown:
        place = (shown.user, shown.conversation, shown.message["seq"])
        if place in found or (shown.conversation in record.full and _ever_member(record, *place)):
            continue
        if not record.readable(*place):
            found.add(place)
            member = record.intervals.get(f"{shown.conversation} {shown.user}")
            yield Violation(
                "outside", f"{shown.user} was shown {shown.conversation} {shown.message}, {shown.how}, {member}"
            )


def _ever_member(record: Record, user: str, conversation: str, seq: int) -> bool:
    """Of a group with FULL history, up to where they last left."""
    stretches = record.intervals.get(f"{conversation} {user}")
    return stretches is not None and seq <= stretches[-1][1]


def key(record: Record) -> Iterator[Violation]:
    keys = {message["id"]: tried.vars["input"].get("idempotencyKey") for tried, message in _acknowledged(record)}
    for shown in record.shown:
        message = shown.message
        if "idempotencyKey" in message and message["id"] in keys:
            due = keys[message["id"]] if message["sender"]["id"] == shown.user else None
            if message["idempotencyKey"] != due:
                yield Violation("key", f"{shown.user} is shown the key of {message}, {shown.how}; it is {due!r}")


def revived(record: Record) -> Iterator[Violation]:
    recalls: dict[str, float] = {}
    edits: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for tried in record.tries:
        if not tried.done or not isinstance(tried.value, dict):
            continue
        if tried.op == "recallMessage":
            recalls[tried.vars["id"]] = min(tried.answered, recalls.get(tried.vars["id"], inf))
        elif tried.op == "editMessage":
            edits[tried.vars["id"]].append((tried.answered, tried.value["editCount"]))
    for shown in record.shown:
        message, id = shown.message, shown.message["id"]
        if "state" not in message:
            continue
        if recalls.get(id, inf) < shown.asked and message["state"] != "RECALLED":
            yield Violation(
                "revived", f"{id}, recalled at {recalls[id]}, was shown to {shown.user}, {shown.how}: {message}"
            )
        due = max((count for at, count in edits.get(id, ()) if at < shown.asked), default=0)
        if message["editCount"] < due:
            yield Violation("revived", f"{id}, edited {due} times, was shown to {shown.user}, {shown.how}: {message}")
