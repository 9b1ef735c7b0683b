"""What clients were told of sessions and receipts, judged.

- miscounted: in the end, unreadCount, unreadMentionCount or totalUnread is not what counting the messages gives; at any time, an answer
  with all sessions has another totalUnread than these give.
- unshown: a message was acknowledged with a session that does not hold it.
- backwards: somebody who was shown one position, or a clock, asked afterwards and was shown an earlier one. This holds for all of a
  user's devices together. What comes by itself may be late: it is what later answers have to reach, and is itself held against nothing.
- ticks backwards: likewise, how many have received or read one's own message.
- ahead: in the end somebody is shown that the other one has read or received more than that one is shown to have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.history import Json
from tests.chaos.record import Record, Seen, Violation

GROWING = ("writeSeq", "readSeq", "deliveredSeq", "peerReadSeq", "peerDeliveredSeq", "activeTs")


def judge_sessions(record: Record) -> list[Violation]:
    """All of it."""
    judges = (miscounted, misadded, unshown, backwards, ticks_backwards, ahead)
    return [violation for judge in judges for violation in judge(record)]


def miscounted(record: Record) -> Iterator[Violation]:
    for user, fresh in record.fresh.items():
        total = 0
        for name, session in fresh["sessions"].items():
            if session["status"] != "ACTIVE":
                continue
            total += 0 if session["muteStatus"] else session["unreadCount"]
            counted = _count(user, session["readSeq"], fresh["histories"].get(name) or [])
            told = (session["unreadCount"], session["unreadMentionCount"])
            if told != counted:
                yield Violation("miscounted", f"{user} {name}: told {told}, counted {counted}: {session}")
        if total != fresh["total"]:
            yield Violation("miscounted", f"{user}: totalUnread {fresh['total']}, the sessions give {total}")


def misadded(record: Record) -> Iterator[Violation]:
    for tried in record.tries:
        value = tried.value
        if tried.op == "syncSessions" and isinstance(value, dict) and not (tried.vars["since"] or value["hasMore"]):
            shown = [s for s in value["sessions"] if s["status"] == "ACTIVE" and not s["muteStatus"]]
            total = sum(session["unreadCount"] for session in shown)
            if total != value["totalUnread"]:
                told = value["totalUnread"]
                yield Violation(
                    "miscounted", f"try {tried.id} of {tried.who}: totalUnread {told}, its sessions give {total}"
                )


def _count(user: str, read: int, messages: list[Json]) -> tuple[int, int]:
    unread = [m for m in messages if m["seq"] > read and m["sender"]["id"] != user and m["contentType"] != "SYSTEM"]
    mentions = [m for m in unread if m["mentionsAll"] or {"id": user} in m["mentions"]]
    return len(unread), len(mentions)


def unshown(record: Record) -> Iterator[Violation]:
    for tried in record.sends():
        if tried.done and isinstance(tried.value, dict) and tried.value.get("session"):
            message, session = tried.value["message"], tried.value["session"]
            if min(session["writeSeq"], session["readSeq"]) < message["seq"]:
                yield Violation("unshown", f"try {tried.id} of {tried.who}: {message} with {session}")


def backwards(record: Record) -> Iterator[Violation]:
    by_session: defaultdict[tuple[str, str], list[Seen]] = defaultdict(list)
    for seen in record.seen:
        by_session[seen.user, seen.conversation].append(seen)
    for (user, conversation), sights in by_session.items():
        for name in GROWING:
            found = _first_fall(name, [seen for seen in sights if seen.fields.get(name) is not None])
            if found is not None:
                earlier, later = found
                yield Violation(
                    "backwards",
                    f"{name} of {user} {conversation}: {earlier.fields[name]} at {earlier.at} ({earlier.how}), then"
                    f" {later.fields[name]}, asked at {later.asked} ({later.how})",
                )


def _first_fall(name: str, sights: list[Seen]) -> tuple[Seen, Seen] | None:
    """The first that was asked for after another one had been shown that was further."""
    # At one moment, what was asked for comes before what was shown: those may have overlapped.
    steps = sorted([(s.asked, 0, n) for n, s in enumerate(sights)] + [(s.at, 1, n) for n, s in enumerate(sights)])
    furthest: Seen | None = None
    due: dict[int, Seen | None] = {}
    for _, shown, number in steps:
        seen = sights[number]
        if not shown:
            due[number] = furthest
            continue
        earlier = due[number]
        if earlier is not None and seen.fields[name] < earlier.fields[name]:
            return earlier, seen
        if furthest is None or seen.fields[name] > furthest.fields[name]:
            furthest = seen
    return None


def ticks_backwards(record: Record) -> Iterator[Violation]:
    sights: defaultdict[tuple[str, str], list[Seen]] = defaultdict(list)
    for tried in record.tries:
        if tried.op == "ticks" and isinstance(tried.value, dict) and tried.value["delivery"]:
            fields = tried.value["delivery"]
            seen = Seen(tried.user, f"try {tried.id}", tried.invoked, tried.answered, tried.vars["id"], fields)
            sights[tried.user, tried.vars["id"]].append(seen)
    for (user, message), told in sights.items():
        for name in ("deliveredCount", "readCount"):
            found = _first_fall(name, told)
            if found is not None:
                yield Violation("ticks backwards", f"{name} of {message}, of {user}: {found[0]}, then {found[1]}")


def ahead(record: Record) -> Iterator[Violation]:
    for user, fresh in record.fresh.items():
        for name, session in fresh["sessions"].items():
            if not name.startswith("p_"):
                continue
            peer = next(iter(set(name[2:].split("~")[0].split("_")) - {user}))
            theirs = record.fresh.get(peer, {}).get("sessions", {}).get(name)
            if theirs is None:
                continue
            told = (session["peerReadSeq"], session["peerDeliveredSeq"])
            if told[0] > theirs["readSeq"] or told[1] > theirs["deliveredSeq"]:
                yield Violation("ahead", f"{name}: {user} is shown that {peer} is at {told}, who is at {theirs}")
