"""A naive reader: reads all pages of all conversations over the API, and judges each message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.api.client import Api, Json, gather_all
from tests.invariants.search.naive_matcher import Verdict, judge
from tests.invariants.search.queries import Query
from tests.invariants.search.vocabulary import LINK

_READ = """query ($id: ID!, $after: String) {
    session(conversationId: $id) { status }
    conversation(id: $id) {
        ... on Group { viewerRole } ... on Channel { viewerFollows } ... on Thread { viewerFollows } }
    messages(conversationId: $id, first: 100, after: $after) { pageInfo { hasNextPage endCursor } edges { node {
        id conversationId seq content contentType createdAt isPinned mentionsAll editCount sender { id }
        mentions { id } mentionedRoles { id } broadcastOf { id } attachments { id } } } } }"""


@dataclass(frozen=True)
class Readable:
    """A message that a user can read. `is_default`: whether a search without conversations covers it."""

    node: Json
    is_default: Verdict

    @property
    def id(self) -> str:
        return str(self.node["id"])


async def read_all(api: Api, user: str, conversations: Sequence[str]) -> tuple[dict[str, Readable], set[str]]:
    """Return all messages that a user can read at this moment, by id, and the conversations that they can see."""
    found: dict[str, Readable] = {}
    visible: set[str] = set()
    pages = await gather_all(*(_read(api, user, each) for each in conversations))
    for conversation, messages in zip(conversations, pages, strict=True):
        if messages is not None:
            visible.add(conversation)
            found |= {message.id: message for message in messages}
    return found, visible


async def _read(api: Api, user: str, conversation: str) -> list[Readable] | None:
    """Return the messages of one conversation; None if the user can't see it."""
    found: list[Readable] = []
    after = None
    while True:
        answer = await api.data(user, _READ, id=conversation, after=after)
        page = answer["messages"]
        if page is None:
            return None
        default = _default(conversation, answer["session"], answer["conversation"] or {})
        found += [Readable(edge["node"], default) for edge in page["edges"]]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            return found


def _default(conversation: str, session: Json | None, shown: Json) -> Verdict:
    """Return whether a search without conversations covers this one.

    Whether conversations that the user has hidden are covered is open, until a new message shows them again.
    """
    is_listed = Verdict.MUST if session is not None and session["status"] == "ACTIVE" else Verdict.MAY
    match conversation[:2]:
        case "p_":
            return is_listed
        case "g_":
            return is_listed if shown.get("viewerRole") is not None else Verdict.NO
        case "c_":
            return Verdict.MUST if shown.get("viewerFollows") else Verdict.NO
        case _:
            return is_listed if shown.get("viewerFollows") else Verdict.NO


def judge_message(message: Readable, user: str, query: Query, workspace: str) -> Verdict:
    """Return whether a search of a user has to find a message that they can read."""
    node, wanted = message.node, query.filter
    if node["content"] is None:
        return Verdict.NO
    verdict = min(judge(node["content"], query.clauses), _in_scope(message, wanted, workspace))
    if verdict is Verdict.NO:
        return verdict
    verdict = min(verdict, _judge_filter(node, user, wanted))
    is_certain = node["contentType"] != "SYSTEM"
    return verdict if is_certain else min(verdict, Verdict.MAY)


def _in_scope(message: Readable, wanted: Json, workspace: str) -> Verdict:
    conversation = message.node["conversationId"]
    named = wanted.get("conversationIds")
    if wanted.get("workspaceId") is not None:
        is_inside = wanted["workspaceId"] == workspace and f"c_{workspace[2:]}." in conversation
        if not is_inside:
            return Verdict.NO
    if named is not None:
        return Verdict.MUST if conversation in named else Verdict.NO
    return message.is_default


def _judge_filter(node: Json, user: str, wanted: Json) -> Verdict:
    verdict = Verdict.MUST
    if "mentionsMe" in wanted:
        is_own = node["sender"]["id"] == user
        is_mentioned = not is_own and user in {each["id"] for each in node["mentions"]}
        others = is_own or node["mentionsAll"] or node["mentionedRoles"]
        found = Verdict.MUST if is_mentioned else Verdict.MAY if others else Verdict.NO
        verdict = min(verdict, found if wanted["mentionsMe"] else Verdict(2 - found))
    checks = {
        "senderIds": lambda senders: node["sender"]["id"] in senders,
        "after": lambda time: _time(node["createdAt"]) > _time(time),
        "before": lambda time: _time(node["createdAt"]) < _time(time),
        "pinned": lambda pinned: node["isPinned"] is pinned,
        "inThreads": lambda threads: node["conversationId"].startswith("t_") is threads,
        "has": lambda kinds: all(_has(node, kind) for kind in kinds),
    }
    fails = any(name in wanted and not check(wanted[name]) for name, check in checks.items())
    return Verdict.NO if fails else verdict


def _has(node: Json, kind: str) -> bool:
    """Return whether a message has a link, or an attachment. All attachments of the world are images."""
    return LINK in node["content"] if kind == "LINK" else kind != "VIDEO" and bool(node["attachments"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
