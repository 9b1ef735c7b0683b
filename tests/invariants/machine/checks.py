"""Compares what the API shows with the model, and the clocks, which no model predicts, with their rules."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.api.client import Refusal
from tests.invariants.machine.deployment import SESSION, SYNC, ClockedDeployment
from tests.invariants.model.conversation import ModelConversation
from tests.invariants.model.groups import GROUP_KINDS
from tests.invariants.model.messages import REVISIONS
from tests.invariants.model.pins import PIN_KINDS
from tests.invariants.model.reactions import REACTION_KINDS
from tests.invariants.model.sessions import Json, Op, SessionModel

FOLDERS = ("work", "home")
SUB_BIZ = "shop"

_LIST = "totalUnread edges { node { id } }"
VIEW = f"""query ($birth: Cursor) {{
    totalUnread
    attention {{ unread mentions threads }}
    main: sessions(first: 60) {{ {_LIST} }}
    inside: sessions(first: 60, subBiz: "{SUB_BIZ}") {{ {_LIST} }}
    work: sessions(first: 60, categoryId: "work") {{ {_LIST} }}
    home: sessions(first: 60, categoryId: "home") {{ {_LIST} }}
    sessionCategories {{ categoryId sessionCount unreadCount writeTs
        lastMessage {{ seq conversationId state editCount reactions {{ emoji count }} }} }}
    syncSessions(since: $birth) {{ totalUnread hasMore reset sessions {{ {SESSION} }} }} }}"""
LISTED = f"query {{ sessions(first: 60) {{ edges {{ node {{ {SESSION} }} }} }} }}"

_NOT_MODELLED = ("id", "activeTs", "writeTs", "conversation", "lastMessage")


@dataclass(frozen=True)
class Mark:
    """A cursor, and the state of the walk when the server returned it."""

    user: str
    cursor: str
    step: int
    losses: int
    bursts: int
    told: int


class Checks:
    """The model of one example, and what each user was last shown."""

    def __init__(self, processes: ClockedDeployment, users: Sequence[str], births: dict[str, str]) -> None:
        self.model = SessionModel()
        self.step = 0
        self.losses = 0
        self.bursts = 0
        self._processes = processes
        self._births = births
        self._floor = 0
        self._answers: list[tuple[str, Json]] = []
        self._shown: dict[tuple[str, str], Json] = {}
        self._moved: dict[tuple[str, str], int] = {}
        self._pinned: dict[tuple[str, str], int] = {}
        self._highest = dict.fromkeys(users, 0)
        self._looked = dict.fromkeys(users, 0)

    def begin(self) -> None:
        """Begin a step."""
        self.step += 1
        self._floor = self._processes.now
        self._answers.clear()
        self.model.now = self._floor

    def answered(self, op: Op, answer: Any) -> None:
        """Note the answer of a mutation: the next check has to show the same."""
        match op.kind:
            case "send":
                self._answers.append((op.user, answer["session"]))
            case "assign" | "read_many" | "receive_many":
                self._answers += [(op.user, session) for session in answer]
            case kind if kind not in (*GROUP_KINDS, *REVISIONS, *REACTION_KINDS, *PIN_KINDS):
                self._answers.append((op.user, answer))

    def pass_time(self) -> None:
        """End the mutes whose time is over."""
        for (user, name), session in self.model.sessions.items():
            if session.until is not None and session.until <= self._processes.now:
                self.model.end_mute(user, name)

    def touched(self) -> set[str]:
        return {user for user, _ in self.model.changed}

    async def check(self, users: Iterable[str], process: int) -> None:
        """Check that the API shows these users what the model says."""
        for user in sorted(users):
            view = await self.read_view(user, process)
            wrong = self._wrong(self.model, user, view)
            assert not wrong, "\n".join(wrong)
            self._note(user, view)

    async def check_any(self, models: Sequence[SessionModel], users: Iterable[str], process: int) -> None:
        """Check that one of the models explains what the API shows these users, and follow that one."""
        views = {user: await self.read_view(user, process) for user in sorted(users)}
        failures: list[list[str]] = []
        for model in models:
            wrong = [line for user, view in views.items() for line in self._wrong(model, user, view)]
            if not wrong:
                self.model = model
                for user, view in views.items():
                    self._note(user, view)
                return
            failures.append(wrong)
        raise AssertionError("no order explains this; nearest:\n" + "\n".join(sorted(failures, key=len)[0]))

    def orders(self, done: Sequence[tuple[Op, Any]]) -> list[SessionModel]:
        """Return the model after each order of concurrent operations that explains their errors."""
        models = []
        for order in itertools.permutations(done):
            model = copy.deepcopy(self.model)
            if all(is_refused(answer, model.apply(op)) for op, answer in order):
                models.append(model)
        assert models, f"no order explains {done}"
        return models

    async def read_view(self, user: str, process: int) -> Json:
        view: Json = await self._processes.apis[process].data(user, VIEW, birth=self._births[user])
        return view

    async def check_list(self, user: str, process: int) -> None:
        """Check that the session list shows the same sessions as syncSessions."""
        edges = (await self._processes.apis[process].data(user, LISTED))["sessions"]["edges"]
        for session in (edge["node"] for edge in edges):
            assert session == self._shown[user, session["conversation"]["id"]]

    def _note(self, user: str, view: Json) -> None:
        for session in view["syncSessions"]["sessions"]:
            name = session["conversation"]["id"]
            self._shown[user, name] = session
            self._highest[user] = max(self._highest[user], session["activeTs"])
            if name.startswith("b_") and (user, name) in self.model.rewritten:
                self._pinned[user, name] = session["writeTs"]
        for key in [key for key in self.model.changed if key[0] == user]:
            self._moved[key] = self.step
        self.model.changed -= {key for key in self.model.changed if key[0] == user}
        self.model.rewritten -= {key for key in self.model.rewritten if key[0] == user}
        self.model.restored -= {key for key in self.model.restored if key[0] == user}
        self._looked[user] = self.losses

    # --- what is wrong

    def _wrong(self, model: SessionModel, user: str, view: Json) -> list[str]:
        delta = view["syncSessions"]
        shown = {session["conversation"]["id"]: session for session in delta["sessions"]}
        wrong = [f"answered {s}, but shows {shown[s['conversation']['id']]}"
                 for who, s in self._answers if who == user and s != shown[s["conversation"]["id"]]]  # fmt: skip
        wrong += _unlike("hasMore and reset", (False, False), (delta["hasMore"], delta["reset"]))
        wrong += _unlike(f"{user}'s sessions", set(model.names(user)), set(shown))
        if wrong:
            return wrong
        for name, session in shown.items():
            wrong += self._wrong_session(model, user, name, session)
            wrong += self._wrong_clocks(model, user, name, shown)
        wrong += _unlike(f"{user}: different activeTs", len(shown), len({s["activeTs"] for s in shown.values()}))
        totals = {view["totalUnread"], view["main"]["totalUnread"], delta["totalUnread"]}
        wrong += _unlike(f"{user} totalUnread", {model.total_unread(user)}, totals)
        wrong += _unlike(f"{user} attention", model.attention(user), view["attention"])
        for field, names in (
            ("main", model.listed(user)),
            ("inside", model.listed(user, SUB_BIZ)),
            *((folder, model.listed(user, category=folder)) for folder in FOLDERS),
        ):
            wrong += _wrong_list(f"{user} {field}", names, shown, view[field])
        return wrong + _wrong_folders(model, user, shown, view["sessionCategories"])

    def _wrong_session(self, model: SessionModel, user: str, name: str, session: Json) -> list[str]:
        wrong = []
        for field, value in model.session_for(user, name).items():
            wrong += _unlike(f"{user} {name} {field}", value, session[field])
        last, conversation = session["lastMessage"], model.conversations.get(name)
        if conversation:
            expected = _last_of(model, user, name)
            wrong += _unlike(f"{user} {name} lastMessage", expected, last)
        elif last is not None and last != _last_of(model, user, last["conversationId"]):
            wrong.append(f"{user} {name} lastMessage is not the last of its conversation: {last}")
        return wrong

    def _wrong_clocks(self, model: SessionModel, user: str, name: str, shown: dict[str, Json]) -> list[str]:
        session, before = shown[name], self._shown.get((user, name))
        active, write = session["activeTs"], session["writeTs"]
        wrong = []
        lost, old = self._looked[user] != self.losses, before["activeTs"] if before else 0
        if (user, name) in model.changed:
            past = old if lost else self._highest[user]
            if active <= past:
                wrong.append(f"{user} {name} changed: activeTs {active} is not past {past}")
        elif before and active != old and (active < old or not lost):
            wrong.append(f"{user} {name} did not change: activeTs {old} became {active}")
        low = high = before["writeTs"] if before else write
        if name.startswith("b_"):
            low = max((s["writeTs"] for s in shown.values() if _is_inside(s)), default=0)
            high = max(low, self._pinned.get((user, name), 0))
            if session["status"] == "INVALID":
                low, high = 0, active
        if (user, name) in model.rewritten:
            low, high = max(low, self._floor), max(high + 1, active)
        if (user, name) in model.restored:
            high = max(high, active)
        if not low <= write <= high:
            wrong.append(f"{user} {name} writeTs {write} is not between {low} and {high}")
        return wrong

    # --- synchronisation

    def mark(self, user: str, cursor: str) -> Mark:
        """Return a mark for this moment, at which nothing is under way."""
        return Mark(user, cursor, self.step, self.losses, self.bursts, len(self.model.events[user]))

    async def catch_up(self, mark: Mark, first: int, process: int) -> None:
        """Check that syncSessions returns all changes since a mark, each once, oldest first.

        It may return unchanged sessions only if Redis lost data since the mark.
        """
        found: list[Json] = []
        delta: Json = {"cursor": mark.cursor, "hasMore": True}
        while delta["hasMore"]:
            asked = {"since": delta["cursor"], "first": first}
            delta = (await self._processes.apis[process].data(mark.user, SYNC, **asked))["syncSessions"]
            assert delta["reset"] is False
            assert len(delta["sessions"]) == first if delta["hasMore"] else len(delta["sessions"]) <= first
            found += delta["sessions"]
            assert len(found) < 100, "it goes on for ever"
        names = [session["conversation"]["id"] for session in found]
        expected = {name for (user, name), step in self._moved.items() if user == mark.user and step > mark.step}
        missing, more = expected - set(names), set(names) - expected
        assert not missing, f"{mark.user} was not told of {missing}"
        assert not more or mark.losses != self.losses, f"{mark.user} was told of {more}, which did not change"
        assert [s["activeTs"] for s in found] == sorted({s["activeTs"] for s in found})
        for name, session in zip(names, found, strict=True):
            assert session == self._shown[mark.user, name]
        again = (await self._processes.apis[process].data(mark.user, SYNC, since=delta["cursor"]))["syncSessions"]
        assert again["sessions"] == []


def is_refused(answer: Any, expected: Refusal | None) -> bool:
    """Return whether an answer is the expected error, or a success if none is expected.

    An expected error without a field matches any field.
    """
    if not isinstance(answer, Refusal) or expected is None:
        return not isinstance(answer, Refusal) and expected is None
    return answer == Refusal(expected.code, expected.field or answer.field)


def _unlike(what: str, expected: object, got: object) -> list[str]:
    return [] if expected == got else [f"{what}: expected {expected}, got {got}"]


def _as_last(conversation: ModelConversation, name: str, seq: int) -> Json:
    sent = conversation.messages[seq - 1]
    state, edits = "RECALLED" if sent.recalled else "NORMAL", max(0, len(sent.texts) - 1)
    reactions = [{"emoji": each["emoji"], "count": each["count"]} for each in sent.reactions_for("")]
    return {"seq": seq, "conversationId": name, "state": state, "editCount": edits, "reactions": reactions}


def _last_of(model: SessionModel, user: str, name: str) -> Json | None:
    newest = model.conversations[name].newest(user)
    return _as_last(model.conversations[name], name, newest) if newest else None


def _is_inside(session: Json) -> bool:
    return bool(session["subBiz"] == SUB_BIZ and session["status"] == "ACTIVE")


def _wrong_list(what: str, expected: set[str], shown: dict[str, Json], listed: Json) -> list[str]:
    names = {session["id"]: name for name, session in shown.items()}
    got = [names[edge["node"]["id"]] for edge in listed["edges"]]
    if set(got) != expected or len(got) != len(expected):
        return [f"{what}: expected {sorted(expected)}, got {got}"]
    order = [(-shown[name]["priority"], -shown[name]["writeTs"]) for name in got]
    return _unlike(f"{what}, order of {got}", sorted(order), order)


def _wrong_folders(model: SessionModel, user: str, shown: dict[str, Json], listed: list[Json]) -> list[str]:
    got = {folder["categoryId"]: (folder["sessionCount"], folder["unreadCount"]) for folder in listed}
    wrong = _unlike(f"{user} sessionCategories", model.categories(user), got)
    times = [folder["writeTs"] for folder in listed]
    wrong += _unlike(f"{user} order of folders", sorted(times, reverse=True), times)
    if wrong:
        return wrong
    for folder in listed:
        inside = [shown[name] for name in model.listed(user, category=folder["categoryId"])]
        newest = max(session["writeTs"] for session in inside)
        last = [session["lastMessage"] for session in inside if session["writeTs"] == newest]
        wrong += _unlike(f"{user} {folder['categoryId']} writeTs", newest, folder["writeTs"])
        if folder["lastMessage"] not in last:
            wrong.append(f"{user} {folder['categoryId']} lastMessage: {folder['lastMessage']} is none of {last}")
    return wrong
