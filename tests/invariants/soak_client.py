"""One device's connection for the soak, and the operations it asks."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.processes import ServerProcess

Json = dict[str, Any]

SESSION = """
    id writeSeq readSeq deliveredSeq unreadCount unreadMentionCount unreadStatus muteStatus mutedUntil priority
    categoryId subBiz status activeTs writeTs peerDeliveredSeq peerReadSeq
    conversation { __typename id type title } lastMessage { id seq content sender { id } }
"""

_SESSION_ASKED = f"{{ {SESSION} }}"
_MESSAGE = """{ id conversationId seq content contentType mentionsAll sender { id } mentions { id } }"""


def _changing(name: str, parameters: str, arguments: str) -> str:
    return f"mutation ($id: ID!{parameters}) {{ {name}(conversationId: $id{arguments}) {_SESSION_ASKED} }}"


QUERIES = {
    "sendMessage": f"""mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{
        replayed message {_MESSAGE} session {_SESSION_ASKED} }} }}""",
    "markRead": _changing("markRead", ", $seq: Int", ", upToSeq: $seq"),
    "deleteSession": _changing("deleteSession", ", $hard: Boolean", ", hard: $hard"),
    "muteSession": _changing("muteSession", ", $muted: Boolean!, $until: DateTime", ", muted: $muted, until: $until"),
    "pinSession": _changing("pinSession", ", $priority: Int", ", priority: $priority"),
    "setUnread": _changing("setUnread", "", ""),
    "assignCategory": f"""mutation ($ids: [ID!]!, $category: ID) {{
        assignCategory(conversationIds: $ids, categoryId: $category) {_SESSION_ASKED} }}""",
    "createGroup": "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }",
    "inviteMembers": "mutation ($id: ID!, $users: [ID!]!) { inviteMembers(groupId: $id, userIds: $users) { id } }",
    "session": f"query ($id: ID!) {{ session(conversationId: $id) {_SESSION_ASKED} }}",
    "sessions": f"""query ($first: Int, $after: String, $subBiz: String, $category: ID) {{
        sessions(first: $first, after: $after, subBiz: $subBiz, categoryId: $category) {{ totalUnread cursor
        pageInfo {{ hasNextPage endCursor }} edges {{ node {_SESSION_ASKED} }} }} }}""",
    "syncSessions": f"""query ($since: Cursor, $first: Int) {{ syncSessions(since: $since, first: $first) {{
        cursor hasMore totalUnread reset sessions {_SESSION_ASKED} }} }}""",
    "totalUnread": "{ totalUnread }",
    "sessionCategories": """{ sessionCategories { categoryId sessionCount unreadCount writeTs lastMessage { id } } }""",
    "me": "{ me { id } }",
}
LIVE_SESSIONS = f"""subscription ($since: Cursor) {{ syncSession(since: $since) {{
    reason hasMore totalUnread cursor reset sessions {_SESSION_ASKED} }} }}"""
LIVE_MESSAGES = f"""subscription ($since: Cursor) {{ messageEvents(since: $since) {{ __typename
    ... on MessageCreated {{ cursor message {_MESSAGE} }}
    ... on ReceiptAdvanced {{ cursor conversationId status seq user {{ id }} }}
    ... on CaughtUp {{ cursor reset }} }} }}"""


class Failed(Exception):
    """An error that the API answered."""

    def __init__(self, kind: str, code: str, told: str) -> None:
        super().__init__(f"{kind}: {code}: {told}")
        self.kind = kind
        self.code = code


@dataclass
class Tally:
    """What was asked and answered, by all devices together, and what should not have been."""

    asked: Counter[str] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)

    def problem(self, sentence: str) -> None:
        self.problems.append(sentence)


class Client:
    """One device's kept-alive connection to one server."""

    def __init__(self, tally: Tally, server: ServerProcess, user: str) -> None:
        self.user = user
        self._tally = tally
        self._http = server.client(user, timeout=60)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, kind: str, **variables: Any) -> Any:
        """The value of the operation's one field. Raises Failed."""
        self._tally.asked[kind] += 1
        began = time.perf_counter()
        body = orjson.dumps({"query": QUERIES[kind], "variables": variables})
        answer = orjson.loads((await self._http.post("/graphql", content=body)).content)
        self._tally.seconds[kind].append(time.perf_counter() - began)
        if "errors" in answer:
            # Several where what one read was for failed in each session of a page.
            (code,) = {error["extensions"]["code"] for error in answer["errors"]}
            error = answer["errors"][0]
            self._tally.errors[kind, code] += 1
            raise Failed(kind, code, f"{error['message']} {error['extensions'].get('field', '')} {variables}")
        (value,) = answer["data"].values()
        return value

    async def list_all(self, sub_biz: str | None = None, category: str | None = None) -> list[Json]:
        """A whole session list, in order."""
        found: list[Json] = []
        after = None
        while True:
            page = await self.ask("sessions", first=100, after=after, subBiz=sub_biz, category=category)
            found += [edge["node"] for edge in page["edges"]]
            after = page["pageInfo"]["endCursor"]
            if not page["pageInfo"]["hasNextPage"]:
                return found
