"""Plans an import: maps nicks to user ids, and lines to steps of these users."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.checks import LONGEST_CONTENT, LONGEST_NAME
from resolvers.base.names import clean_name
from resolvers.groups.group_creation import SMALLEST_GROUP
from server.chat_import.log_file import ChatFile, ChatLine, JoinLine, MessageLine, RenameLine
from server.errors import CommandError
from store.base.ids import UserId

IMPORTER = UserId("importer")
"""Owner of the imported groups and workspaces, who invites the users that join. No nick is mapped to this id."""

_SIMPLE_NICK = re.compile(r"[A-Za-z0-9][A-Za-z0-9.@-]{0,63}\Z")
"""Nicks that are used as user ids. Fixed, because an import that continues must give everybody the same id again."""

_REPLACED = re.compile(r"[^A-Za-z0-9.@-]")
_HAS_DIGEST = re.compile(r".*\.[0-9a-f]{16}\Z", re.DOTALL)
_MAX_STEM_LENGTH = 47
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class SendStep:
    """A user sends a message. All mentioned users are members at that time."""

    line: int
    user: UserId
    text: str
    mentions: tuple[UserId, ...]


@dataclass(frozen=True, slots=True)
class JoinStep:
    """A user becomes a member."""

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
    """Steps of an import. It depends only on the content of the log.

    `names` has the first name of every user. `starters` are members before the first step. `skipped` is the number of
    messages without text, `cut` the number of messages that are too long and are shortened.
    """

    names: dict[UserId, str]
    starters: tuple[UserId, ...]
    steps: tuple[Step, ...]
    skipped: int
    cut: int

    def names_after(self, line: int) -> dict[UserId, str]:
        """Return the names of all users after this line."""
        changed = {step.user: step.name for step in self.steps if isinstance(step, RenameStep) and step.line <= line}
        return self.names | changed


def user_id_for(nick: str, owner_number: int = 1) -> UserId:
    """Return the id of the n-th person whose first nick is `nick`. Ids are stable, and unique per nick and number.

    A nick of letters, digits, `.`, `@` and `-` is used unchanged. Other nicks keep these characters and get a digest.
    """
    # A nick that looks like it has a digest gets one too, so that the two kinds of ids cannot collide.
    if owner_number == 1 and _SIMPLE_NICK.match(nick) and not _HAS_DIGEST.match(nick) and nick != IMPORTER:
        return UserId(nick)
    key = f"{owner_number} {nick}".encode("utf-8", "surrogatepass")
    stem = _REPLACED.sub("-", nick).strip(".@-")[:_MAX_STEM_LENGTH] or "user"
    return UserId(f"{stem}.{hashlib.blake2b(key, digest_size=8).hexdigest()}")


def display_name_for(nick: str) -> str:
    """Return the nick without hidden characters and characters that display names must not contain."""
    name = clean_name(_SURROGATES.sub(_REPLACEMENT, _CONTROLS.sub("", nick))[:LONGEST_NAME])
    return name if name.strip() else user_id_for(nick)


def clean_text(text: str) -> str:
    """Return the text without NULs, with replacement characters for lone surrogates."""
    return _SURROGATES.sub(_REPLACEMENT, text.replace("\0", ""))


def cut_text(text: str) -> str:
    """Return the text, shortened to the maximum length of a message with an ellipsis."""
    return text if len(text) <= LONGEST_CONTENT else f"{text[: LONGEST_CONTENT - 1]}…"


def make_plan(chat: ChatFile, smallest: int = SMALLEST_GROUP) -> ImportPlan:
    """Return the plan for a log. Raises CommandError if it has fewer than `smallest` people, the importer included.

    A person whose first line is not a join is a member from the start. A nick belongs to the person who has it at that
    time: a rename passes the new nick to the renamed person. A nick that was given up and appears again belongs to a
    new person.
    """
    nicks = _NickRegistry()
    lines = [(line, nicks.process(line)) for line in chat.lines]
    starters = _find_starters(lines, smallest)
    if len(starters) + 1 < smallest:
        raise CommandError(
            f"The chat has only {len(nicks.names)} person: a group needs {smallest} members, including the importer."
        )
    members = set(starters)
    steps: list[Step] = []
    skipped = cut = 0
    for line, user in lines:
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
                # The addressed person may be a member from the start who speaks only later.
                addressed = nicks.addressed.get(line.line) or nicks.first_owners.get(line.to or "")
                mentions = (addressed,) if addressed in members and addressed is not None else ()
                steps.append(SendStep(line.line, user, cut_text(text), mentions))
    return ImportPlan(nicks.names, tuple(starters), tuple(steps), skipped, cut)


def _find_starters(lines: Sequence[tuple[ChatLine, UserId]], smallest: int) -> list[UserId]:
    """Return the members from the start. If they are too few, add the first people who join."""
    first_lines: dict[UserId, ChatLine] = {}
    for line, user in lines:
        first_lines.setdefault(user, line)
    starters = [user for user, line in first_lines.items() if not isinstance(line, JoinLine)]
    joiners = [user for user, line in first_lines.items() if isinstance(line, JoinLine)]
    return starters + joiners[: max(0, smallest - 1 - len(starters))]


class _NickRegistry:
    """Tracks which person has which nick, line by line."""

    def __init__(self) -> None:
        self.names: dict[UserId, str] = {}
        self.addressed: dict[int, UserId] = {}
        self.first_owners: dict[str, UserId] = {}
        self._owners: dict[str, UserId] = {}
        self._counts: dict[str, int] = {}

    def process(self, line: ChatLine) -> UserId:
        """Update the nicks, and return the author of the line."""
        user = self._owners.get(line.nick) or self._add_person(line.nick)
        if isinstance(line, RenameLine):
            del self._owners[line.nick]
            self._owners[line.to] = user
        elif isinstance(line, MessageLine) and line.to in self._owners:
            self.addressed[line.line] = self._owners[line.to]
        return user

    def _add_person(self, nick: str) -> UserId:
        count = self._counts[nick] = self._counts.get(nick, 0) + 1
        user = user_id_for(nick, count)
        self._owners[nick] = user
        self.first_owners.setdefault(nick, user)
        self.names[user] = display_name_for(nick)
        return user
