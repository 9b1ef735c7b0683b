"""Every user's sessions as counting MongoDB's rows gives them, compared with what the API answers.

The counting is as simple as possible: it reads all messages, and no counter. It is valid while nothing is under way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo.database import Database

from store.base.ids import parse_private
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS
from tests.chaos.judges.history import Json
from tests.chaos.load.load_state import INBOX
from tests.chaos.load.requester import Requester

_INEXACT = ("peerReadSeq", "peerDeliveredSeq", "writeTs")


@dataclass
class CountedUser:
    """The sessions of one user, by conversation, INVALID ones and gateways too: the fields that MongoDB determines."""

    sessions: dict[str, Json] = field(default_factory=dict)

    def active(self) -> Iterator[tuple[str, Json]]:
        """Iterate over the valid sessions."""
        return ((name, session) for name, session in self.sessions.items() if session["status"] == "ACTIVE")

    def main_list(self) -> set[str]:
        """Return the conversations of the main list."""
        return {name for name, session in self.active() if session["subBiz"] is None}

    def inside(self, sub_biz: str) -> set[str]:
        """Return the conversations of a subBiz."""
        return {name for name, session in self.active() if session["subBiz"] == sub_biz}

    def in_category(self, category: str) -> set[str]:
        """Return the conversations of a category."""
        return {name for name, session in self.active() if session["categoryId"] == category}

    def total(self) -> int:
        """Return totalUnread. A muted gateway mutes all that is inside."""
        return sum(
            session["unreadCount"]
            for name, session in self.active()
            if not name.startswith("b_")
            and not session["muteStatus"]
            and not (session["subBiz"] is not None and self.sessions[f"b_{session['subBiz']}"]["muteStatus"])
        )

    def categories(self) -> dict[str, Json]:
        """Return sessionCategories by id. `lastMessages` are those of the sessions with the newest writeTs."""
        found: dict[str, Json] = {}
        for _, session in self.active():
            if session["categoryId"] is None:
                continue
            category = found.setdefault(
                session["categoryId"], {"sessionCount": 0, "unreadCount": 0, "writeTs": 0, "lastMessages": set()}
            )
            category["sessionCount"] += 1
            category["unreadCount"] += 0 if session["muteStatus"] else session["unreadCount"]
            if session["writeTs"] > category["writeTs"]:
                category["writeTs"], category["lastMessages"] = session["writeTs"], set()
            if session["writeTs"] == category["writeTs"]:
                category["lastMessages"].add(session["lastMessage"])
        return found


def count_sessions(database: Database[Json], now_ms: int, *, exact: bool) -> dict[str, CountedUser]:
    """Count every user's sessions.

    Args:
        database: The run's database.
        now_ms: The time of the deployment, for mutes that end.
        exact: False if servers died or their clocks differ. The cache may then lack receipts that a dead server had not
            passed on, and may have an earlier writeTs where two servers committed one message.
    """
    messages: dict[str, list[Json]] = defaultdict(list)
    for row in database[MESSAGES].find().sort([("c", 1), ("s", 1)]):
        messages[row["c"]].append(row)
    heads = {row["_id"]: row for row in database[CONVERSATIONS].find()}
    intervals = {row["_id"]: row["i"] for row in database[MEMBERS].find()}
    rows: dict[tuple[str, str], Json] = {}
    # Sessions of threads have a tab in their ids: `confab check` compares them.
    for row in database[SESSIONS].find({"_id": {"$not": {"$regex": "\t"}}}):
        user, name = row["_id"].split(" ")
        if name.startswith("c_"):
            # Sessions in channels are in no list and in no sum.
            continue
        rows[user, name] = row
        if parse_private(name) is not None:
            # Sending a private message reads, without a write to the row.
            own = max((m["s"] for m in messages[name] if m["u"] == user and m["k"] != "S"), default=0)
            row |= {"r": max(row["r"], own), "d": max(row["d"], own)}
    counted: dict[str, CountedUser] = defaultdict(CountedUser)
    for (user, name), row in rows.items():
        if name.startswith("b_") or name not in heads:
            continue
        people, said = parse_private(name), messages[name]
        if people is not None and not said:
            continue
        last = intervals[f"{name} {user}"][-1][1] if people is None else -1
        if last != -1:
            said = [message for message in said if message["s"] <= last]
        session = _session(user, row, heads[name], said, now_ms)
        if people is None:
            session["subBiz"] = heads[name].get("sb")
            if heads[name].get("st"):
                session = {"status": "INVALID", "subBiz": session["subBiz"]}
            elif last != -1:
                session["writeSeq"] = last
                # A former member's last message, and the time of it, depend on all intervals.
                del session["writeTs"], session["lastMessage"]
        else:
            session["subBiz"] = people[2]
            peer = rows[people[1] if people[0] == user else people[0], name]
            session |= {"peerReadSeq": peer["r"], "peerDeliveredSeq": max(peer["r"], peer["d"])}
        if not exact:
            session = {name: value for name, value in session.items() if name not in _INEXACT}
        counted[user].sessions[name] = session
    for user, one in counted.items():
        _add_gateways(user, one, rows, now_ms)
    return counted


def _session(user: str, row: Json, head: Json, messages: list[Json], now_ms: int) -> Json:
    deleted = row.get("x")
    newest = messages[-1] if messages else None
    active = deleted is None or any(m["k"] != "S" and m["s"] > deleted for m in messages)
    read = max(row["r"], deleted or 0)
    unread = [m for m in messages if m["s"] > read and m["u"] != user and m["k"] != "S"]
    return {
        "status": "ACTIVE" if active else "INVALID",
        "writeSeq": newest["s"] if newest else 0,
        "readSeq": read,
        "deliveredSeq": max(row["d"], read),
        "writeTs": max(row.get("w", 0), head.get("w", 0)),
        # An own message after the mark removes it.
        "unreadStatus": row.get("us") is not None and row["r"] <= row["us"],
        "categoryId": row.get("ca"),
        "lastMessage": f"m_{newest['_id']}" if newest else None,
        "unreadCount": len(unread),
        "unreadMentionCount": sum(bool(m.get("ma") or user in m.get("m", ())) for m in unread),
        **_settings(row, now_ms),
    }


def _settings(row: Json, now_ms: int) -> Json:
    until = row.get("mu")
    muted = bool(row.get("m")) and (until is None or until > now_ms)
    at = datetime.fromtimestamp(until / 1000, UTC).isoformat(timespec="milliseconds") if muted and until else None
    return {
        "priority": row.get("p", 0),
        "muteStatus": muted,
        "mutedUntil": at.replace("+00:00", "Z") if at else None,
    }


def _add_gateways(user: str, counted: CountedUser, rows: dict[tuple[str, str], Json], now_ms: int) -> None:
    for sub_biz in {session["subBiz"] for session in counted.sessions.values()} - {None}:
        inside = [session for session in counted.sessions.values() if session["subBiz"] == sub_biz]
        active = [session for session in inside if session["status"] == "ACTIVE"]
        unmuted = [session for session in active if not session["muteStatus"]]
        row = rows.get((user, f"b_{sub_biz}"), {})
        gateway = counted.sessions[f"b_{sub_biz}"] = {
            "status": "ACTIVE" if active else "INVALID",
            "subBiz": None,
            "categoryId": None,
            "unreadStatus": False,
            **dict.fromkeys(("writeSeq", "readSeq", "deliveredSeq"), 0),
            **{name: sum(session[name] for session in unmuted) for name in ("unreadCount", "unreadMentionCount")},
            **_settings(row, now_ms),
        }
        if active and all("writeTs" in session for session in active):
            gateway["writeTs"] = max(row.get("w", 0), *(session["writeTs"] for session in active))


async def compare_with_api(requester: Requester, counted: CountedUser) -> list[str]:
    """Return where a user's lists, sessions, totals and categories are not as counted."""
    wrong: list[str] = []
    listed = await requester.read_list()
    shown = {session["conversation"]["id"]: session for session in listed}
    wrong += _compare_list("main list", listed, counted.main_list())
    for sub_biz in sorted({name.removeprefix("b_") for name in counted.sessions if name.startswith("b_")}):
        inside = await requester.read_list(sub_biz=sub_biz)
        wrong += _compare_list(f"list of {sub_biz}", inside, counted.inside(sub_biz))
        shown |= {session["conversation"]["id"]: session for session in inside}
    for category in sorted({session["categoryId"] for _, session in counted.active() if session["categoryId"]}):
        filed = await requester.read_list(category=category)
        wrong += _compare_list(f"list of {category}", filed, counted.in_category(category))
    for name in counted.sessions.keys() - shown.keys():
        shown[name] = await requester.request("session", id=name)
    for name, expected in counted.sessions.items():
        wrong += _compare_session(name, expected, shown[name])
    inbox = await requester.request("session", id=INBOX)
    total = await requester.request("totalUnread") - (inbox["unreadCount"] if inbox else 0)
    if total != counted.total():
        wrong.append(f"totalUnread {total}, counted {counted.total()}")
    if all("writeTs" in session for _, session in counted.active()):
        wrong += _compare_categories(counted, await requester.request("sessionCategories"))
    return [f"{requester.user}: {sentence}" for sentence in wrong]


def _compare_session(name: str, expected: Json, session: Json | None) -> list[str]:
    if session is None:
        return [f"{name} is null"]
    found: dict[str, Any] = session | {"lastMessage": session["lastMessage"] and session["lastMessage"]["id"]}
    different = {name: (found[name], value) for name, value in expected.items() if found[name] != value}
    return [f"{name}: shown and counted: {different}"] if different else []


def _compare_list(title: str, listed: list[Json], expected: set[str]) -> list[str]:
    wrong = []
    names = [session["conversation"]["id"] for session in listed]
    if sorted(names) != sorted(expected):
        wrong.append(f"{title}: missing {sorted(expected - set(names))}, too many {sorted(set(names) - expected)}")
    order = [(session["priority"], session["writeTs"]) for session in listed]
    if order != sorted(order, reverse=True):
        wrong.append(f"{title}: not in order: {order}")
    return wrong


def _compare_categories(counted: CountedUser, shown: list[Json]) -> list[str]:
    expected = counted.categories()
    found = {category["categoryId"]: category for category in shown}
    if found.keys() != expected.keys() or len(shown) != len(found):
        return [f"categories {sorted(found)}, counted {sorted(expected)}"]
    wrong = []
    for name, category in expected.items():
        last_messages = category.pop("lastMessages")
        last = found[name]["lastMessage"]
        if any(found[name][key] != value for key, value in category.items()) or (
            (last and last["id"]) not in last_messages
        ):
            wrong.append(f"category {name}: {found[name]}, counted {category} {last_messages}")
    order = [category["writeTs"] for category in shown]
    if order != sorted(order, reverse=True):
        wrong.append(f"categories are not in order: {order}")
    return wrong
