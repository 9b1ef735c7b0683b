"""What every user's sessions must be, counted naively from MongoDB alone, and held against what the API answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo.database import Database

from store.base.ids import parse_private
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS
from tests.invariants.soak_client import Client, Json


@dataclass
class Truth:
    """One user's."""

    sessions: dict[str, Json] = field(default_factory=dict)
    """By conversation, INVALID ones and gateways too: the fields that can be told from MongoDB."""

    def valid(self) -> Iterator[tuple[str, Json]]:
        return ((c, session) for c, session in self.sessions.items() if session["status"] == "ACTIVE")

    def main_list(self) -> set[str]:
        return {c for c, session in self.valid() if session["subBiz"] is None}

    def inside(self, sub_biz: str) -> set[str]:
        return {c for c, session in self.valid() if session["subBiz"] == sub_biz}

    def folder(self, category: str) -> set[str]:
        return {c for c, session in self.valid() if session["categoryId"] == category}

    def total(self) -> int:
        """A muted gateway mutes all that is inside."""
        return sum(
            session["unreadCount"]
            for c, session in self.valid()
            if not c.startswith("b_") and not session["muteStatus"] and not self._gateway_muted(session["subBiz"])
        )

    def _gateway_muted(self, sub_biz: str | None) -> bool:
        return sub_biz is not None and bool(self.sessions[f"b_{sub_biz}"]["muteStatus"])

    def categories(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for _, session in self.valid():
            if session["categoryId"] is None:
                continue
            folder = found.setdefault(
                session["categoryId"], {"sessionCount": 0, "unreadCount": 0, "writeTs": 0, "last": set()}
            )
            folder["sessionCount"] += 1
            folder["unreadCount"] += 0 if session["muteStatus"] else session["unreadCount"]
            if session["writeTs"] > folder["writeTs"]:
                folder["writeTs"], folder["last"] = session["writeTs"], set()
            if session["writeTs"] == folder["writeTs"]:
                folder["last"].add(session["lastMessage"])
        return found


def count_anew(database: Database[Json], now_ms: int) -> dict[str, Truth]:
    """Every user's truth. Nothing may be under way."""
    messages: dict[str, list[Json]] = defaultdict(list)
    for row in database[MESSAGES].find().sort([("c", 1), ("s", 1)]):
        messages[row["c"]].append(row)
    heads = {row["_id"]: row for row in database[CONVERSATIONS].find()}
    joined = {row["_id"]: row["i"][-1][0] for row in database[MEMBERS].find()}
    rows: dict[tuple[str, str], Json] = {}
    for row in database[SESSIONS].find():
        user, conversation = row["_id"].split(" ")
        rows[user, conversation] = row
        if parse_private(conversation) is not None:
            # Sending reads.
            own = max((m["s"] for m in messages[conversation] if m["u"] == user and m["k"] != "S"), default=0)
            row |= {"r": max(row["r"], own), "d": max(row["d"], own)}
    truths: dict[str, Truth] = defaultdict(Truth)
    for (user, conversation), row in rows.items():
        if conversation.startswith("b_") or conversation not in heads:
            continue
        people = parse_private(conversation)
        if people is not None and not messages[conversation]:
            continue
        session = _session(user, row, heads[conversation], messages[conversation], now_ms)
        if people is None:
            visible_from = joined[f"{conversation} {user}"]
            session |= _counts(user, row, [m for m in messages[conversation] if m["s"] >= visible_from])
            session["subBiz"] = heads[conversation].get("sb")
        else:
            session["subBiz"] = people[2]
            peer = rows[people[1] if people[0] == user else people[0], conversation]
            session |= {"peerReadSeq": peer["r"], "peerDeliveredSeq": max(peer["r"], peer["d"])}
        truths[user].sessions[conversation] = session
    for user, truth in truths.items():
        _add_gateways(user, truth, rows, now_ms)
    return truths


def _session(user: str, row: Json, head: Json, messages: list[Json], now_ms: int) -> Json:
    deleted = row.get("x")
    newest = messages[-1] if messages else None
    alive = deleted is None or any(m["k"] != "S" and m["s"] > deleted for m in messages)
    return {
        "status": "ACTIVE" if alive else "INVALID",
        "writeSeq": newest["s"] if newest else 0,
        "readSeq": max(row["r"], deleted or 0),
        "deliveredSeq": max(row["d"], row["r"], deleted or 0),
        "writeTs": max(row.get("w", 0), head.get("w", 0)),
        # A message of the user's own after it takes it away.
        "unreadStatus": row.get("us") is not None and row["r"] <= row["us"],
        "categoryId": row.get("ca"),
        "lastMessage": f"m_{newest['_id']}" if newest else None,
        **_counts(user, row, messages),
        **_settings(row, now_ms),
    }


def _counts(user: str, row: Json, messages: list[Json]) -> Json:
    """By counting: none of them is left where the session is deleted, since then what revives it comes after."""
    after = max(row["r"], row.get("x") or 0)
    unread = [m for m in messages if m["s"] > after and m["u"] != user and m["k"] != "S"]
    mentioning = [m for m in unread if m.get("ma") or user in m.get("m", ())]
    return {"unreadCount": len(unread), "unreadMentionCount": len(mentioning)}


def _settings(row: Json, now_ms: int) -> Json:
    until = row.get("mu")
    muted = bool(row.get("m")) and (until is None or until > now_ms)
    at = datetime.fromtimestamp(until / 1000, UTC).isoformat(timespec="milliseconds") if muted and until else None
    return {
        "priority": row.get("p", 0),
        "muteStatus": muted,
        "mutedUntil": at.replace("+00:00", "Z") if at else None,
    }


def _add_gateways(user: str, truth: Truth, rows: dict[tuple[str, str], Json], now_ms: int) -> None:
    for sub_biz in {session["subBiz"] for session in truth.sessions.values()} - {None}:
        inside = [session for session in truth.sessions.values() if session["subBiz"] == sub_biz]
        valid = [session for session in inside if session["status"] == "ACTIVE"]
        counted = [session for session in valid if not session["muteStatus"]]
        row = rows.get((user, f"b_{sub_biz}"), {})
        truth.sessions[f"b_{sub_biz}"] = {
            "status": "ACTIVE" if valid else "INVALID",
            "subBiz": None,
            "categoryId": None,
            "unreadStatus": False,
            **dict.fromkeys(("writeSeq", "readSeq", "deliveredSeq"), 0),
            **{name: sum(session[name] for session in counted) for name in ("unreadCount", "unreadMentionCount")},
            **_settings(row, now_ms),
        }
        if valid:
            newest = max(session["writeTs"] for session in valid)
            truth.sessions[f"b_{sub_biz}"] |= {"writeTs": max(newest, row.get("w", 0))}


async def disagreements(user: str, truth: Truth, client: Client) -> tuple[dict[str, Json], list[str]]:
    """What the API answers a user, and where that is not the truth."""
    wrong: list[str] = []
    listed = await client.list_all()
    shown = {session["conversation"]["id"]: session for session in listed}
    _compare_list("main list", listed, truth.main_list(), wrong)
    for sub_biz in sorted({c.removeprefix("b_") for c in truth.sessions if c.startswith("b_")}):
        inside = await client.list_all(sub_biz=sub_biz)
        _compare_list(f"sub-list {sub_biz}", inside, truth.inside(sub_biz), wrong)
        shown |= {session["conversation"]["id"]: session for session in inside}
    for category in sorted({s["categoryId"] for _, s in truth.valid() if s["categoryId"]}):
        _compare_list(category, await client.list_all(category=category), truth.folder(category), wrong)
    for conversation in truth.sessions.keys() - shown.keys():
        shown[conversation] = await client.ask("session", id=conversation)
    for conversation, wanted in truth.sessions.items():
        wrong += _different(conversation, wanted, shown[conversation])
    total = await client.ask("totalUnread")
    if total != truth.total():
        wrong.append(f"totalUnread {total}, counted {truth.total()}")
    wrong += _wrong_categories(truth, await client.ask("sessionCategories"))
    return shown, [f"{user}: {sentence}" for sentence in wrong]


def _different(conversation: str, wanted: Json, session: Json | None) -> list[str]:
    if session is None:
        return [f"{conversation} is null"]
    found: dict[str, Any] = session | {"lastMessage": session["lastMessage"] and session["lastMessage"]["id"]}
    different = {name: (found[name], value) for name, value in wanted.items() if found[name] != value}
    return [f"{conversation}: shown and counted: {different}"] if different else []


def _compare_list(name: str, listed: list[Json], wanted: set[str], wrong: list[str]) -> None:
    ids = [session["conversation"]["id"] for session in listed]
    if sorted(ids) != sorted(wanted):
        wrong.append(f"{name}: not there {sorted(wanted - set(ids))}, too many {sorted(set(ids) - wanted)}, {len(ids)}")
    order = [(session["priority"], session["writeTs"]) for session in listed]
    if order != sorted(order, reverse=True):
        wrong.append(f"{name}: not in order: {order}")


def _wrong_categories(truth: Truth, shown: list[Json]) -> list[str]:
    wanted = truth.categories()
    found = {category["categoryId"]: category for category in shown}
    if found.keys() != wanted.keys() or len(shown) != len(found):
        return [f"folders {sorted(found)}, counted {sorted(wanted)}"]
    wrong = []
    for name, category in wanted.items():
        told = found[name]
        last = category.pop("last")
        if any(told[key] != value for key, value in category.items()) or (_id_of(told) not in last):
            wrong.append(f"folder {name}: {told}, counted {category} {last}")
    order = [category["writeTs"] for category in shown]
    if order != sorted(order, reverse=True):
        wrong.append(f"folders not in order: {order}")
    return wrong


def _id_of(category: Json) -> str | None:
    return str(category["lastMessage"]["id"]) if category["lastMessage"] else None
