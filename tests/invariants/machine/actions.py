"""Mutations chosen by small numbers, so that hypothesis can shrink the choice."""

from __future__ import annotations

from collections.abc import Sequence

from tests.api.client import Refusal
from tests.invariants.machine.checks import FOLDERS, SUB_BIZ
from tests.invariants.machine.deployment import DOCUMENTS, ClockedDeployment
from tests.invariants.model.groups import GROUP_KINDS
from tests.invariants.model.messages import REVISIONS
from tests.invariants.model.reactions import EMOJI, REACTION_KINDS
from tests.invariants.model.sessions import Json, Op, SessionModel, gateway
from tests.user_ids import private_id

BURST = ("send", "send", "read", "read_many", "receive", "delete", "mute", "pin", "remind", "assign")
GROUP_BURST = (
    "send",
    "send",
    "invite",
    "remove",
    "leave",
    "transfer",
    "role",
    "update",
    "read",
    "receive",
    "edit",
    "edit",
    "recall",
    "react",
    "react",
    "unreact",
)
BAD = 16
UPDATES: tuple[Json, ...] = (
    {"historyVisibility": "FULL"},
    {"historyVisibility": "SINCE_JOIN"},
    {"name": "Team"},
    {"name": "Group", "avatarUrl": None},
    {"avatarUrl": "https://example.org/a.png", "historyVisibility": "FULL"},
    {"name": None, "historyVisibility": None},
    {"metadata": {"topic": ["a", {"b": None}]}},
    {"metadata": {}, "name": "Team"},
)
PAST = "2026-01-02T03:04:05.678Z"
FUTURE = "2099-01-02T03:04:05.678Z"


class Actions:
    """Creates the mutations of one example. A `choice` is any number that selects from what exists."""

    def __init__(self, users: Sequence[str], processes: ClockedDeployment) -> None:
        self.users = users
        self._processes = processes
        self._said = 0

    def send(self, model: SessionModel, user: str, any_: int, mention: bool = False, mentions_all: bool = False) -> Op:
        """Return a send to another user, in the subBiz or not, or to a group."""
        groups = self._groups(model)
        if any_ >= 8 and groups:
            name = groups[any_ % len(groups)]
            conversation = model.conversations[name]
            # At times a user who left.
            mentions = list(conversation.intervals)[:2] if mention else []
            return Op("send", user, name, (mentions, mentions_all, self._text(), self._reply(name, any_)))
        peer = [other for other in self.users if other != user][any_ % 4]
        name = private_id(user, peer, SUB_BIZ if any_ % 8 >= 4 else None)
        return Op("send", user, name, ([peer] if mention else [], False, self._text(), self._reply(name, any_)))

    def _groups(self, model: SessionModel) -> list[str]:
        """Return all groups, also those that have ended."""
        return [name for name in model.conversations if name.startswith("g_")]

    def _text(self) -> str:
        self._said += 1
        return f"text {self._said}"

    def _reply(self, name: str, any_: int) -> int | None:
        """Return the seq of a known message to reply to; None most of the time."""
        known = [seq for where, seq in self._processes.ids if where == name]
        return known[self._said % len(known)] if known and any_ % 4 == 1 else None

    def change(self, model: SessionModel, kind: str, user: str, any_: int, value: object = None) -> Op:
        """Return a change of one of the user's sessions, or a send if the user has none."""
        gateways = kind in ("read", "mute", "pin")
        names = [name for name in model.names(user) if gateways or not name.startswith("b_")]
        if not names:
            return self.send(model, user, any_)
        if kind == "mute" and isinstance(value, int) and value is not False:
            value = self._processes.now + value
        return Op(kind, user, names[any_ % len(names)], value)

    def assign(self, model: SessionModel, user: str, which: Sequence[int], folder: str | None) -> Op:
        """Return an assignment of sessions to a category; a session may be named twice."""
        names = [name for name in model.names(user) if not name.startswith("b_")]
        return Op("assign", user, "", ([names[any_ % len(names)] for any_ in which if names], folder))

    def mark_many(self, model: SessionModel, user: str, which: Sequence[int] | None, up_to: int | None = None) -> Op:
        """Return a reading of sessions, a session may be named twice; None: of all. up_to: acknowledge this seq."""
        names = [name for name in model.names(user) if up_to is None or not name.startswith("b_")]
        if up_to is None:
            return Op("read_many", user, "", [names[i % len(names)] for i in which if names] if which else None)
        return Op("receive_many", user, "", [(names[i % len(names)], up_to + i % 2) for i in which or () if names])

    def group(self, model: SessionModel, kind: str, user: str, any_: int, whom: Sequence[int], more: int = 0) -> Op:
        """Return a change of a group, allowed or not, or a send if there is no group. more: from 0 to 3."""
        groups = self._groups(model)
        if not groups:
            return self.send(model, user, any_)
        group = groups[any_ % len(groups)]
        named = [self.users[number] for number in whom]
        target = named[0] if named else user
        owner = model.conversations[group].owner
        if kind in ("transfer", "role", "remove") and more % 2 and owner in model.conversations[group].members:
            # Most other members may not do it.
            user = owner
        match kind:
            case "invite":
                outside = [other for other in self.users if other not in model.conversations[group].members]
                return Op(kind, user, group, outside[:1] + named)
            case "remove" | "transfer":
                return Op(kind, user, group, target)
            case "role":
                return Op(kind, user, group, (target, ("ADMIN", "MEMBER", "ADMIN", "OWNER")[more]))
            case "update":
                return Op(kind, user, group, UPDATES[any_ % len(UPDATES)])
            case _:
                return Op(kind, user, group)

    def revise(self, model: SessionModel, kind: str, user: str, any_: int, number: int) -> Op:
        """Return an edit or a recall of a known message, mostly of a new one, or a send if there is none."""
        known = sorted(self._processes.ids, key=lambda place: (list(model.conversations).index(place[0]), place[1]))
        if not known:
            return self.send(model, user, any_)
        near = [place for place in known if user in model.conversations[place[0]].members] or known
        name, seq = (known if any_ == 7 else near)[-1 - any_ % len(known if any_ == 7 else near)]
        sent = model.conversations[name].messages[seq - 1]
        author = sent.sender if number in (1, 2) else user
        text = sent.texts[-1] if number == 3 and sent.texts else self._text()
        return Op(kind, author, name, (seq, text) if kind == "edit" else (seq,))

    def react(self, model: SessionModel, kind: str, user: str, any_: int, number: int) -> Op:
        """Return a change of the reactions to a known message, or a send if there is none. number: from 0 to 3."""
        revision = self.revise(model, "recall", user, any_, 0)
        if revision.kind == "send":
            return revision
        emoji = None if kind == "clear" and number == 3 else EMOJI[number % len(EMOJI)]
        return Op(kind, user, revision.target, (revision.value[0], emoji))

    def pin(self, model: SessionModel, kind: str, user: str, any_: int, number: int) -> Op:
        """Return the pinning or unpinning of a known message, or a send if there is none. number: from 0 to 3."""
        revision = self.revise(model, "recall", user, any_, 0)
        if revision.kind == "send":
            return revision
        conversation = model.conversations[revision.target]
        # Most members may not do it.
        user = conversation.owner if number and conversation.owner in conversation.members else user
        seq = conversation.pins[-1] if kind == "unpin_message" and conversation.pins else revision.value[0]
        return Op(kind, user, revision.target, seq)

    def any(self, model: SessionModel, kind: str, user: str, any_: int, number: int) -> Op:
        """Return a mutation of a kind. number: from 0 to 3."""
        if kind == "send":
            return self.send(model, user, any_, number == 1)
        if kind in REVISIONS:
            return self.revise(model, kind, user, any_, number)
        if kind in REACTION_KINDS:
            return self.react(model, kind, user, any_, number)
        if kind in GROUP_KINDS:
            return self.group(model, kind, user, any_, [number], number)
        if kind == "read_many":
            return self.mark_many(model, user, (any_, number) if number else None)
        if kind == "assign":
            return self.assign(model, user, (0, 1), FOLDERS[number % 2])
        values = {"mute": (None, False, 3_600_000, None), "delete": (False, True, False, True), "pin": (0, 1, 5, 5),
                  "receive": (1, 2, 3, 1_000)}  # fmt: skip
        return self.change(model, kind, user, any_, values.get(kind, (None,) * 4)[number])

    def bad(self, model: SessionModel, user: str, any_: int, number: int) -> tuple[str, Json, Refusal]:
        """Return a document, variables, and the error that they lead to. number: below BAD."""
        own = self.change(model, "remind", user, any_).target
        strange = private_id(*[other for other in self.users if other != user][:2])
        b_shop = gateway(SUB_BIZ)
        cases: list[tuple[str, Json, str]] = [
            ("remind", {"id": strange}, "conversationId"),
            ("pin", {"id": "g_1", "priority": 1}, "conversationId"),
            ("read", {"id": "", "seq": None}, "conversationId"),
            ("assign", {"ids": [own, strange], "category": "work"}, "conversationIds"),
            ("read", {"id": own, "seq": -1}, "upToSeq"),
            ("receive", {"id": own, "seq": -1}, "upToSeq"),
            ("pin", {"id": own, "priority": 1001}, "priority"),
            ("pin", {"id": own, "priority": -1}, "priority"),
            ("mute", {"id": own, "muted": True, "until": PAST}, "until"),
            ("mute", {"id": own, "muted": False, "until": FUTURE}, "until"),
            ("assign", {"ids": [own], "category": " "}, "categoryId"),
            ("assign", {"ids": [own], "category": "x" * 129}, "categoryId"),
            ("remind", {"id": b_shop}, "conversationId"),
            ("receive", {"id": b_shop, "seq": 1}, "conversationId"),
            ("delete", {"id": b_shop, "hard": True}, "conversationId"),
            ("assign", {"ids": [b_shop], "category": "work"}, "conversationIds"),
        ]
        kind, variables, field = cases[number]
        malformed = number in range(4, 12) or (number > 11 and (user, b_shop) in model.sessions)
        return DOCUMENTS[kind], variables, Refusal("INVALID_INPUT" if malformed else "NOT_FOUND", field)
