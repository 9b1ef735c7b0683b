"""Who is who in a chat log: nicks become user ids, and lines become what these users do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.checks import LONGEST_CONTENT, LONGEST_NAME
from resolvers.groups.group_creation import SMALLEST_GROUP
from server.chat_import.log_file import ChatFile, ChatLine, JoinLine, MessageLine, RenameLine
from server.errors import CommandError
from store.base.ids import UserId, is_user_id

IMPORTER = UserId("importer")
"""Owns the groups that logs go to, and invites whom they say came in. No nick is mapped to it."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9.@-]")
_MARKED = re.compile(r".*\.[0-9a-f]{16}\Z", re.DOTALL)
_LONGEST_STEM = 47
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class SendStep:
    """A user writes. Mentions are of people who are members by then."""

    line: int
    user: UserId
    text: str
    mentions: tuple[UserId, ...]


@dataclass(frozen=True, slots=True)
class JoinStep:
    """A user who has not been a member so far becomes one."""

    line: int
    user: UserId


@dataclass(frozen=True, slots=True)
class RenameStep:
    """A user's display name changes."""

    line: int
    user: UserId
    name: str


Step = SendStep | JoinStep | RenameStep


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What a log makes happen, a pure function of its content.

    `names` holds everybody with the name they begin with, `starters` those who are there before the first step.
    `skipped` counts messages without text, `cut` those that were longer than a message may be.
    """

    names: dict[UserId, str]
    starters: tuple[UserId, ...]
    steps: tuple[Step, ...]
    skipped: int
    cut: int

    def names_after(self, line: int) -> dict[UserId, str]:
        """Everybody's name once the lines up to and with this one have happened."""
        changed = {step.user: step.name for step in self.steps if isinstance(step, RenameStep) and step.line <= line}
        return self.names | changed


def user_id_for(nick: str, bearer: int = 1) -> UserId:
    """The id of the bearer-th person who begins with a nick. Always the same, and never another nick's or bearer's.

    A nick that is a legal user id stays what it is; any other keeps its legal characters and gets a digest.
    """
    # Whoever is spelt as if they had a digest gets one too, so that the two kinds of id never meet.
    if bearer == 1 and is_user_id(nick) and not _MARKED.match(nick) and nick != IMPORTER:
        return UserId(nick)
    whole = f"{bearer} {nick}".encode("utf-8", "surrogatepass")
    stem = _ILLEGAL.sub("-", nick).strip(".@-")[:_LONGEST_STEM] or "user"
    return UserId(f"{stem}.{hashlib.blake2b(whole, digest_size=8).hexdigest()}")


def display_name_for(nick: str) -> str:
    """The nick, less what a display name can't hold."""
    name = _SURROGATES.sub(_REPLACEMENT, _CONTROLS.sub("", nick))[:LONGEST_NAME]
    return name if name.strip() else user_id_for(nick)


def clean_text(text: str) -> str:
    """A text without NULs, with a replacement character for each half of a surrogate pair."""
    return _SURROGATES.sub(_REPLACEMENT, text.replace("\0", ""))


def cut_text(text: str) -> str:
    """A text as far as a message may be long; an ellipsis says that there was more."""
    return text if len(text) <= LONGEST_CONTENT else f"{text[: LONGEST_CONTENT - 1]}…"


def make_plan(chat: ChatFile) -> ImportPlan:
    """What a log makes happen. Raises CommandError where a group can't begin with it.

    Whoever first appears in a line that is no join was there from the start. A nick belongs to who bears it at that
    moment: a rename takes it along, from whoever bore it before. A nick that was given up and turns up again is borne by
    somebody new.
    """
    cast = _NickRegistry()
    acted = [(line, cast.act(line)) for line in chat.lines]
    starters = _starters(acted)
    if len(starters) + 1 < SMALLEST_GROUP:
        raise CommandError(
            f"The chat has {len(cast.names)} person in it: a group begins with {SMALLEST_GROUP}, the importer included."
        )
    members = set(starters)
    steps: list[Step] = []
    skipped = cut = 0
    for line, user in acted:
        match line:
            case JoinLine():
                if user not in members:
                    members.add(user)
                    steps.append(JoinStep(line.line, user))
            case RenameLine():
                steps.append(RenameStep(line.line, user, display_name_for(line.to)))
            case MessageLine():
                text = clean_text(line.text)
                if not text.strip():
                    skipped += 1
                    continue
                cut += len(text) > LONGEST_CONTENT
                # Somebody may be spoken to who was there all the time, and speaks only later.
                addressed = cast.addressed.get(line.line) or cast.first_bearers.get(line.to or "")
                mentions = (addressed,) if addressed in members and addressed is not None else ()
                steps.append(SendStep(line.line, user, cut_text(text), mentions))
    return ImportPlan(cast.names, tuple(starters), tuple(steps), skipped, cut)


def _starters(acted: Sequence[tuple[ChatLine, UserId]]) -> list[UserId]:
    """Those who were there from the start; where they are too few for a group, the first who join as well."""
    first_lines: dict[UserId, ChatLine] = {}
    for line, user in acted:
        first_lines.setdefault(user, line)
    starters = [user for user, line in first_lines.items() if not isinstance(line, JoinLine)]
    joiners = [user for user, line in first_lines.items() if isinstance(line, JoinLine)]
    return starters + joiners[: max(0, SMALLEST_GROUP - 1 - len(starters))]


class _NickRegistry:
    """Who bears which nick, as the lines go by."""

    def __init__(self) -> None:
        self.names: dict[UserId, str] = {}
        self.addressed: dict[int, UserId] = {}
        self.first_bearers: dict[str, UserId] = {}
        self._bearers: dict[str, UserId] = {}
        self._counts: dict[str, int] = {}

    def act(self, line: ChatLine) -> UserId:
        """Who a line is by."""
        user = self._bearers.get(line.nick) or self._appear(line.nick)
        if isinstance(line, RenameLine):
            del self._bearers[line.nick]
            self._bearers[line.to] = user
        elif isinstance(line, MessageLine) and line.to in self._bearers:
            self.addressed[line.line] = self._bearers[line.to]
        return user

    def _appear(self, nick: str) -> UserId:
        count = self._counts[nick] = self._counts.get(nick, 0) + 1
        user = user_id_for(nick, count)
        self._bearers[nick] = user
        self.first_bearers.setdefault(nick, user)
        self.names[user] = display_name_for(nick)
        return user
