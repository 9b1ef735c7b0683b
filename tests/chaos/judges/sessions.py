"""Judges what clients were shown of sessions and receipts.

- miscounted: at the end, unreadCount, unreadMentionCount or totalUnread is not the number that a count of the
  messages gives; at any time, an answer with all sessions has another totalUnread than their sum.
- stale session: a message was acknowledged with a session that does not contain it.
- backwards: a client received a position or a clock, and the answer to a later request contained an earlier one. All
  devices of a user count together. An event may arrive late: it may be behind answers, but later answers must not be
  behind it.
- delivery backwards: the same for the numbers of users who received or read an own message.
- ahead: at the end a user is shown that the other one has read or received more than that one is shown.

Where nothing but the cache was disturbed, also:

- forgotten: at the end, a setting is not what the newest acknowledged change of the session made it. The copy of a
  broadcast reply ends an unread mark without such an answer: the send is answered with the session of the thread.
- clock: two sends of one user, one after the other, got ticks that do not grow.
- ambiguous: one tick of a user was shown with two states of a session, though Redis lost nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime
from math import inf

from store.base.ids import UserId, parse_private, private_id
from tests.chaos.judges.history import Json
from tests.chaos.judges.record import Record, SeenSession, Try, Violation, sessions_in

GROWING = ("writeSeq", "readSeq", "deliveredSeq", "peerReadSeq", "peerDeliveredSeq", "activeTs", "writeTs")
SETTINGS = ("unreadStatus", "muteStatus", "mutedUntil", "priority", "categoryId")

_CHANGES = frozenset(
    {"sendMessage", "markRead", "ackDelivered", "deleteSession", "muteSession", "pinSession", "setUnread"}
    | {"assignCategory"}
)
_STATE = (*SETTINGS, "writeSeq", "readSeq", "deliveredSeq", "unreadCount", "status", "peerReadSeq", "peerDeliveredSeq")
_SOON_SECONDS = 60.0
"""A mute that ends within this time after the end may be over or not."""


def judge_sessions(record: Record) -> list[Violation]:
    """Return all violations."""
    judges = [miscounted, wrong_total, stale_session, backwards, delivery_backwards, ahead]
    if not record.disturbed:
        judges += [forgotten, clock]
    if not record.disturbed and not record.losses:
        judges.append(ambiguous)
    return [violation for judge in judges for violation in judge(record)]


# --- counts


def miscounted(record: Record) -> Iterator[Violation]:
    """Count every user's messages at the end."""
    for user, fresh in record.fresh.items():
        for name, session in fresh["sessions"].items():
            if session["status"] != "ACTIVE" or name.startswith("b_"):
                continue
            counted = _count(user, session["readSeq"], fresh["histories"].get(name) or [])
            shown = (session["unreadCount"], session["unreadMentionCount"])
            if shown != counted:
                yield Violation("miscounted", f"{user} {name}: shown {shown}, counted {counted}: {session}")
        total = _sum(fresh["sessions"].values())
        if total != fresh["total"]:
            yield Violation("miscounted", f"{user}: totalUnread {fresh['total']}, the sessions give {total}")


def wrong_total(record: Record) -> Iterator[Violation]:
    """Add up the sessions of every answer that contains all of them."""
    for tried in record.tries:
        value = tried.value
        if (
            tried.operation == "syncSessions"
            and isinstance(value, dict)
            and not (tried.variables["since"] or value["hasMore"])
        ):
            total = _sum(value["sessions"])
            if total != value["totalUnread"]:
                text = (
                    f"try {tried.id} of {tried.device}: totalUnread {value['totalUnread']}, its sessions give {total}"
                )
                yield Violation("miscounted", text)


def _sum(sessions: Collection[Json]) -> int:
    active = [session for session in sessions if session["status"] == "ACTIVE"]
    muted = {s["conversation"]["id"] for s in active if s["conversation"]["id"].startswith("b_") and s["muteStatus"]}
    return sum(
        session["unreadCount"]
        for session in active
        if not session["conversation"]["id"].startswith("b_")
        and not session["muteStatus"]
        and f"b_{session['subBiz']}" not in muted
    )


def _count(user: str, read: int, messages: list[Json]) -> tuple[int, int]:
    unread = [m for m in messages if m["seq"] > read and m["sender"]["id"] != user and m["contentType"] != "SYSTEM"]
    mentions = [m for m in unread if m["mentionsAll"] or {"id": user} in m["mentions"]]
    return len(unread), len(mentions)


def stale_session(record: Record) -> Iterator[Violation]:
    """Compare each acknowledged message with the session in the same answer."""
    for tried in record.sends():
        if tried.succeeded and isinstance(tried.value, dict) and tried.value.get("session"):
            message, session = tried.value["message"], tried.value["session"]
            if min(session["writeSeq"], session["readSeq"]) < message["seq"]:
                yield Violation("stale session", f"try {tried.id} of {tried.device}: {message} with {session}")


# --- positions and clocks


def backwards(record: Record) -> Iterator[Violation]:
    """Find positions and clocks of sessions that went back."""
    by_session: defaultdict[tuple[str, str], list[SeenSession]] = defaultdict(list)
    for seen in record.sessions:
        by_session[seen.user, seen.conversation].append(seen)
    for (user, conversation), sessions in by_session.items():
        for name in GROWING:
            if name == "writeTs" and conversation.startswith("b_"):
                # It is the newest of the sessions that are still inside.
                continue
            found = _find_first_decrease(name, [seen for seen in sessions if seen.fields.get(name) is not None])
            if found is not None:
                earlier, later = found
                yield Violation(
                    "backwards",
                    f"{name} of {user} {conversation}: {earlier.fields[name]} at {earlier.at} ({earlier.source}), then"
                    f" {later.fields[name]}, asked at {later.asked} ({later.source})",
                )


def _find_first_decrease(name: str, sessions: list[SeenSession]) -> tuple[SeenSession, SeenSession] | None:
    """Return the first pair of a value and a smaller one in the answer to a later request, or None."""
    # Of requests and answers at the same time, the requests come first: they may have overlapped.
    steps = sorted([(s.asked, 0, n) for n, s in enumerate(sessions)] + [(s.at, 1, n) for n, s in enumerate(sessions)])
    furthest: SeenSession | None = None
    furthest_before: dict[int, SeenSession | None] = {}
    for _, is_answer, number in steps:
        seen = sessions[number]
        if not is_answer:
            furthest_before[number] = furthest
            continue
        earlier = furthest_before[number]
        if earlier is not None and seen.fields[name] < earlier.fields[name]:
            return earlier, seen
        if furthest is None or seen.fields[name] > furthest.fields[name]:
            furthest = seen
    return None


def delivery_backwards(record: Record) -> Iterator[Violation]:
    """Find counts of receivers and readers that went back."""
    by_message: defaultdict[tuple[str, str], list[SeenSession]] = defaultdict(list)
    for tried in record.tries:
        if tried.operation == "delivery" and isinstance(tried.value, dict) and tried.value["delivery"]:
            fields, id = tried.value["delivery"], tried.variables["id"]
            seen = SeenSession(tried.user, f"try {tried.id}", tried.invoked, tried.answered, id, fields)
            by_message[tried.user, id].append(seen)
    for (user, message), answers in by_message.items():
        for name in ("deliveredCount", "readCount"):
            found = _find_first_decrease(name, answers)
            if found is not None:
                yield Violation("delivery backwards", f"{name} of {message}, of {user}: {found[0]}, then {found[1]}")


def ahead(record: Record) -> Iterator[Violation]:
    """Compare both sides of each private conversation at the end."""
    for user, fresh in record.fresh.items():
        for name, session in fresh["sessions"].items():
            people = parse_private(name)
            if people is None:
                continue
            peer = people[1] if people[0] == user else people[0]
            theirs = record.fresh.get(peer, {}).get("sessions", {}).get(name)
            if theirs is None:
                continue
            shown = (session["peerReadSeq"], session["peerDeliveredSeq"])
            if shown[0] > theirs["readSeq"] or shown[1] > theirs["deliveredSeq"]:
                yield Violation("ahead", f"{name}: {user} is shown that {peer} is at {shown}, who is at {theirs}")


def clock(record: Record) -> Iterator[Violation]:
    """Compare the ticks of each user's sends that did not overlap."""
    steps: defaultdict[str, list[tuple[float, int, int, Try]]] = defaultdict(list)
    for tried in record.sends():
        if (
            tried.succeeded
            and isinstance(tried.value, dict)
            and not tried.value["replayed"]
            and "session" in tried.value
        ):
            tick = tried.value["session"]["activeTs"]
            steps[tried.user] += [(tried.invoked, 0, tick, tried), (tried.answered, 1, tick, tried)]
    for user, ordered in steps.items():
        newest, before = -1, {}
        for _, is_answer, tick, tried in sorted(ordered, key=lambda step: step[:2]):
            if not is_answer:
                before[tried.id] = newest
                continue
            if tick <= before[tried.id]:
                yield Violation(
                    "clock", f"{user}: try {tried.id} of {tried.device} at {tick}, after {before[tried.id]}"
                )
            newest = max(newest, tick)


# --- settings


def forgotten(record: Record) -> Iterator[Violation]:
    """Compare the settings at the end with the newest acknowledged change of each session."""
    newest: dict[tuple[str, str], Json] = {}
    unknown: set[tuple[str, str]] = set()
    for tried in record.tries:
        if tried.operation not in _CHANGES:
            continue
        if not tried.succeeded:
            unknown.update((tried.user, name) for name in _changed_by(tried))
            continue
        value = tried.value
        if tried.operation == "sendMessage" and isinstance(value, dict):
            value = value.get("session")
        for session in sessions_in(value):
            key = (tried.user, session["conversation"]["id"])
            if key not in newest or session["activeTs"] >= newest[key]["activeTs"]:
                newest[key] = session
    copies = _own_copies(record)
    for (user, name), session in newest.items():
        fresh = record.fresh.get(user)
        shown = fresh["sessions"].get(name) if fresh else None
        if fresh is None or shown is None or (user, name) in unknown or not _stayed(record, user, name):
            continue
        expected = _settled_fields(session, copies[user, name], fresh["t"])
        different = {field: (value, shown[field]) for field, value in expected.items() if value != shown[field]}
        if different:
            yield Violation("forgotten", f"{user} {name}: acknowledged and shown at the end: {different}")


def _changed_by(tried: Try) -> list[str]:
    given = tried.variables.get("input", tried.variables)
    if "ids" in given:
        return list(given["ids"])
    if "toUserId" in given:
        return [private_id(UserId(tried.user), UserId(given["toUserId"]), given.get("subBiz"))]
    return [name for name in (given.get("conversationId"), given.get("id")) if name]


def _stayed(record: Record, user: str, name: str) -> bool:
    """Return whether the user has always been in the conversation: joining a group again resets some fields."""
    if not name.startswith("g_"):
        return True
    intervals = record.intervals.get(f"{name} {user}", [])
    return len(intervals) == 1 and intervals[0][1] == inf


def _own_copies(record: Record) -> defaultdict[tuple[str, str], list[int]]:
    """Return the seqs of the copies of broadcast replies, by sender and conversation."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row in record.stored.values():
        if row.get("copy"):
            found[row["sender"], row["conversation"]].append(row["seq"])
    return found


def _settled_fields(session: Json, copies: list[int], end: float) -> Json:
    """Return the settings that a session must have at the end, of those that are known.

    Args:
        session: The session after its newest acknowledged change.
        copies: Seqs of the user's own copies of replies in the conversation.
        end: Time of the end, in seconds.
    """
    fields = {name: session[name] for name in SETTINGS}
    if session["subBiz"] is not None:
        # Reading the gateway clears it, and answers with the gateway only.
        del fields["unreadStatus"]
    elif session["unreadStatus"] and any(seq > session["writeSeq"] for seq in copies):
        # Sending reads, and the mark is not after the newest message of the session.
        fields["unreadStatus"] = False
    elif session["unreadStatus"] and any(seq > session["readSeq"] for seq in copies):
        # The mark may be before or after the copy: messages of others may have come between mark and answer.
        del fields["unreadStatus"]
    until = session["mutedUntil"]
    if until is not None and datetime.fromisoformat(until).timestamp() < end + _SOON_SECONDS:
        del fields["muteStatus"], fields["mutedUntil"]
    return fields


def ambiguous(record: Record) -> Iterator[Violation]:
    """Find ticks that were shown with two states of a session."""
    states: dict[tuple[str, str, int], tuple[Json, str]] = {}
    for seen in record.sessions:
        if "activeTs" not in seen.fields or seen.fields.get("mutedUntil") is not None:
            continue
        if seen.conversation.startswith("c_"):
            # Messages of others change what a session in a channel shows, and do not move its user's clock.
            continue
        state = {name: seen.fields[name] for name in _STATE}
        key = (seen.user, seen.conversation, seen.fields["activeTs"])
        known, source = states.setdefault(key, (state, seen.source))
        if known != state:
            different = {name: (known[name], state[name]) for name in state if known[name] != state[name]}
            yield Violation("ambiguous", f"{key}: {source} and {seen.source} differ: {different}")
