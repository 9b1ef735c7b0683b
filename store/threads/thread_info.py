"""The part of a head that only threads have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from store.base.ids import UserId
from store.conversations.conversation_fields import MAX_PARTICIPANTS, ConversationField, MemberField


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A thread, as its readers share it.

    `recalled_count`: replies that are recalled. `participant_count`: people who replied. `participants`: the latest of
    them, latest first.
    """

    recalled_count: int
    participant_count: int
    is_locked: bool
    participants: tuple[UserId, ...] = ()


def settings_of_thread(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a thread's document that changes of the thread set."""
    names = (ConversationField.REPLIERS, ConversationField.LOCKED)
    return {name: document[name] for name in names if name in document}


def participants_of(members: Iterable[tuple[UserId, Mapping[str, Any]]]) -> list[tuple[int, UserId]]:
    """Return seq of the newest reply and user of the latest repliers, latest first, from membership documents."""
    replied = ((fields[MemberField.LAST_REPLY], user) for user, fields in members if MemberField.LAST_REPLY in fields)
    return sorted(replied, reverse=True)[:MAX_PARTICIPANTS]
