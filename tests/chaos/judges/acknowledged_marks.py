"""Which reactions and pins must be there at the end, and which must not, by the answers to their changes.

A change is certain if it was acknowledged and no opposite change can have taken effect after it: one without an answer
may take effect later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.chaos.judges.record import Try

_CHANGES = {"addReaction": True, "removeReaction": False, "pinMessage": True, "unpinMessage": False}
_LATE_SECONDS = 35.0
"""A request without an answer may take effect this long after it began."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A reaction of a user (`user` and `emoji` are given), or a pin."""

    message: str
    user: str = ""
    emoji: str = ""


def certain_marks(tries: Iterable[Try], copies: Mapping[str, str]) -> dict[Mark, bool]:
    """Return the marks that must be there (True), or must not (False). Marks of messages with a recall are left out.

    Args:
        tries: All requests of a run.
        copies: By copy of a thread reply, the reply, which has the reactions.
    """
    by_mark: defaultdict[Mark, list[Try]] = defaultdict(list)
    recalled: set[str] = set()
    for tried in tries:
        if tried.operation == "recallMessage" and _may_be_done(tried):
            recalled.add(tried.variables["id"])
        elif tried.operation in _CHANGES and _may_be_done(tried):
            id = tried.variables["id"]
            if "emoji" in tried.variables:
                by_mark[Mark(copies.get(id, id), tried.user, tried.variables["emoji"])].append(tried)
            else:
                by_mark[Mark(id)].append(tried)
    found = {}
    for mark, changes in by_mark.items():
        last = max((tried for tried in changes if tried.succeeded), key=lambda tried: tried.invoked, default=None)
        if last is None or copies.get(mark.message, mark.message) in recalled:
            continue
        value = _CHANGES[last.operation]
        opposite = (tried for tried in changes if _CHANGES[tried.operation] != value)
        if all(_latest_end(tried) < last.invoked for tried in opposite):
            found[mark] = value
    return found


def _may_be_done(tried: Try) -> bool:
    return tried.succeeded or tried.code in ("lost", "UNAVAILABLE")


def _latest_end(tried: Try) -> float:
    return tried.answered if tried.succeeded else tried.invoked + _LATE_SECONDS
