"""Heads as Redis has them: the fields that are read, by kind of conversation, and the head that they make."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from store.base.ids import ConversationId, ConversationKind, UserId
from store.conversations.conversation import Head
from store.conversations.conversation_fields import ConversationField, HeadField
from store.conversations.group_change import GroupEnd
from store.conversations.group_info import group_info_from
from store.messages.message import message_from
from store.threads.thread_info import ThreadInfo

_COMMON = (
    HeadField.NEWEST_SEQ,
    HeadField.NEWEST,
    ConversationField.MEMBER_COUNT,
    HeadField.GROUP,
    ConversationField.KIND,
    ConversationField.END,
    ConversationField.ENDED_AT,
    ConversationField.GROUP_VERSION,
    ConversationField.FLOOR_SEQ,
    ConversationField.FLOOR_N,
)
_OF_CHANNELS = (
    *_COMMON,
    HeadField.POLICY_VERSION,
    ConversationField.WRITTEN_AT,
    ConversationField.MENTIONS_ALL,
    HeadField.CONTENTS_VERSION,
    HeadField.PIN_COUNT,
)
"""The sessions of a channel take the times and mentions from it."""
_OF_PRIVATE = (*_COMMON, HeadField.BLOCKED)
_OF_THREADS = (
    *_COMMON,
    HeadField.PARENT_SEQ,
    ConversationField.WRITTEN_AT,
    ConversationField.MENTIONS_ALL,
    ConversationField.RECALLED,
    HeadField.PARTICIPANTS,
)
_FIRST_OF_KIND = len(_COMMON)
_KINDS = {
    b"P": ConversationKind.PRIVATE,
    b"G": ConversationKind.GROUP,
    b"C": ConversationKind.CHANNEL,
    b"T": ConversationKind.THREAD,
}

HeadRow = Sequence[bytes | None]
"""The values of the fields that `head_fields` names."""


def head_fields(conversation: ConversationId) -> tuple[str, ...]:
    """Return the fields of a head that are read."""
    match conversation[:2]:
        case "c_":
            return _OF_CHANNELS
        case "t_":
            return _OF_THREADS
        case "p_":
            return _OF_PRIVATE
        case _:
            return _COMMON


def is_cached(row: HeadRow) -> bool:
    """Return whether the values are those of a cached head.

    That of a channel has a policy version, that of a private conversation the people who are blocked.
    """
    return row[0] is not None and (len(row) == _FIRST_OF_KIND or row[_FIRST_OF_KIND] is not None)


def decode_head(conversation: ConversationId, row: HeadRow) -> Head:
    """Return the head of the values of its fields."""
    newest_seq, newest, member_count, settings, kind_value, end, ended_at, version, floor_seq, floor_n, *of_kind = row
    kind = _KINDS.get(kind_value or b"", ConversationKind.PRIVATE)
    is_thread = kind is ConversationKind.THREAD
    fields = orjson.loads(settings) if settings else {}
    thread = policy_version = written_at = mentions_all = contents_version = pin_count = blocked = None
    if is_thread:
        _, written_at, mentions_all, recalled, participants = of_kind
        thread = ThreadInfo(
            recalled_count=int(recalled or 0),
            participant_count=int(fields.get(ConversationField.REPLIERS, 0)),
            is_locked=bool(fields.get(ConversationField.LOCKED)),
            participants=tuple(UserId(user) for _, user in orjson.loads(participants or b"[]")),
        )
    elif kind is ConversationKind.PRIVATE:
        (blocked,) = of_kind
    elif of_kind:
        policy_version, written_at, mentions_all, contents_version, pin_count = of_kind
    floor, seq = int(floor_seq or 0), int(newest_seq or 0)
    return Head(
        conversation=conversation,
        kind=kind,
        seq=seq,
        newest=message_from(orjson.loads(newest)) if newest and seq > floor else None,
        member_count=int(member_count or 0),
        group=group_info_from(fields) if settings and not is_thread else None,
        ended_at=int(ended_at) if ended_at is not None else None,
        dismissed=end == GroupEnd.DISMISSED.value.encode(),
        version=int(version or 0),
        policy_version=int(policy_version or 0),
        written_at_ms=int(written_at or 0),
        mentions_all=tuple(s for s in orjson.loads(mentions_all) if s > floor) if mentions_all else (),
        contents_version=int(contents_version or 0),
        thread=thread,
        pin_count=int(pin_count) if pin_count is not None else None,
        blocked=frozenset(map(UserId, blocked.decode().split())) if blocked else frozenset(),
        floor_seq=floor,
        floor_n=int(floor_n or 0),
    )
