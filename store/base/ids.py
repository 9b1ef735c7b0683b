"""Identifiers: their kinds, their form in the contract, and the partition and bucket derived from them."""

from __future__ import annotations

import re
import zlib
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, NewType
from urllib.parse import unquote_to_bytes

UserId = NewType("UserId", str)
"""1 to 128 printable characters without white space, as the caller's token has them."""

ConversationId = NewType("ConversationId", str)
MessageId = NewType("MessageId", int)
"""A snowflake. The API writes it `m_<decimal>`."""

FileId = NewType("FileId", int)
"""A snowflake. The API writes it `f_<decimal>`."""

PARTITIONS = 1024
"""Number of hash tags that conversations are distributed to in Redis. A change needs an empty Redis."""

THREADS = "@threads"
"""The subBiz of followed threads. Clients cannot name it when they send: it does not have the form of theirs."""

BUCKET_SIZE = 4096
"""Number of seqs of a conversation that share one `b`, and so one value of the shard key, in MongoDB."""

_ODD = 0x9E3779B97F4A7C15
"""Odd, so that multiplication by it maps no two numbers to the same one."""

USER_ID_RULE = "1 to 128 printable characters without white space, and not the id of a webhook"
"""The form of a user id, for error messages."""

_LONGEST_USER = 128
_LONGEST_ENCODED_USER = _LONGEST_USER * len("%F0%9F%98%80")
_PLAIN_USER = re.compile(r"[A-Za-z0-9.@-]{1,128}\Z")
_ENCODED_USER = re.compile(rf"(?:[A-Za-z0-9.@-]|%[0-9A-F]{{2}}){{1,{_LONGEST_ENCODED_USER}}}\Z")
_ENCODED_BYTES = {byte: f"%{byte:02X}" for byte in range(256) if not _PLAIN_USER.match(chr(byte))}
_SUB_BIZ = re.compile(r"[a-z0-9-]{1,32}\Z")
_GATEWAY = re.compile(r"b_(?:@threads|[a-z0-9-]{1,32})\Z")
_THREAD = re.compile(r"t_([1-9][0-9]{0,15})_([pgc]_.+)\Z", re.DOTALL)
_GROUP = re.compile(r"g_[0-9]{1,19}\Z")
_CHANNEL = re.compile(r"c_(?:0|[1-9][0-9]{0,18})\.(?:0|[1-9][0-9]{0,18})\Z")
_MESSAGE = re.compile(r"m_(0|[1-9][0-9]{0,18})\Z")
_WEBHOOK = re.compile(r"h_[1-9][0-9]{14,18}\Z")
"""Ids of webhooks have at least 15 digits from seven hours after `snowflakes.EPOCH_MS` on."""
_FILE = re.compile(r"f_(0|[1-9][0-9]{0,18})\Z")
_LONGEST_CONVERSATION = len("p__~") + 2 * _LONGEST_ENCODED_USER + 32
_LONGEST_CACHED = 256
"""Longer ids are parsed each time, so that a cache of 20,000 takes a few megabytes at most."""


class ConversationKind(StrEnum):
    """Kind of a conversation. The prefix of its id shows it."""

    PRIVATE = "PRIVATE"
    GROUP = "GROUP"
    SUB_BIZ = "SUB_BIZ"
    CHANNEL = "CHANNEL"
    THREAD = "THREAD"

    # Enum's own is a Python function, and lists look up kinds for each row.
    __hash__ = str.__hash__


def is_user_id(text: str) -> bool:
    """Return whether text has the form of a user id.

    Printable is what `str.isprintable` accepts: no control or format characters, separators other than the space,
    surrogates, or code points without a character. The id of an incoming webhook is none: nobody signs in as one,
    writes to one, or adds one to a group or workspace.
    """
    return 0 < len(text) <= _LONGEST_USER and text.isprintable() and " " not in text and not is_webhook_user(text)


def is_webhook_user(text: str) -> bool:
    """Return whether text has the form of a webhook's id. An incoming webhook is the sender of its messages."""
    return _WEBHOOK.match(text) is not None


def is_sender_id(text: str) -> bool:
    """Return whether text has the form of the id of a user or of an incoming webhook."""
    return is_user_id(text) or is_webhook_user(text)


def encode_user(user: UserId) -> str:
    """Return the form that a user id has inside other ids and in the names of keys.

    Every byte of its UTF-8 outside A-Z a-z 0-9 . @ - is percent-encoded, so the result contains no separator.
    """
    if _PLAIN_USER.match(user):
        return user
    return user.encode().decode("latin-1").translate(_ENCODED_BYTES)


def decode_user(text: str) -> UserId | None:
    """Return the user id that `encode_user` encodes as text, or None if there is none."""
    if _PLAIN_USER.match(text):
        return UserId(text)
    if not _ENCODED_USER.match(text):
        return None
    try:
        user = UserId(unquote_to_bytes(text).decode())
    except UnicodeDecodeError:
        return None
    return user if is_user_id(user) and encode_user(user) == text else None


def is_sub_biz(text: str) -> bool:
    """Return whether text has the form of a subBiz name."""
    return _SUB_BIZ.match(text) is not None


def private_id(one: UserId, other: UserId, sub_biz: str | None = None) -> ConversationId:
    """Return the private conversation of two people: user ids sorted by code point, then encoded."""
    first, second = (one, other) if one < other else (other, one)
    suffix = f"~{sub_biz}" if sub_biz else ""
    return ConversationId(f"p_{encode_user(first)}_{encode_user(second)}{suffix}")


def parse_private(conversation: str) -> tuple[UserId, UserId, str | None] | None:
    """Return the two people and the subBiz of a well-formed private id, else None."""
    return _cached_private(conversation) if len(conversation) <= _LONGEST_CACHED else _parse_private(conversation)


def _parse_private(conversation: str) -> tuple[UserId, UserId, str | None] | None:
    if not conversation.startswith("p_") or len(conversation) > _LONGEST_CONVERSATION:
        return None
    body, tilde, sub_biz = conversation[2:].partition("~")
    if tilde and not is_sub_biz(sub_biz):
        return None
    one, _, other = body.partition("_")
    first, second = decode_user(one), decode_user(other)
    if first is None or second is None or first >= second:
        return None
    return first, second, sub_biz or None


_cached_private = lru_cache(maxsize=20_000)(_parse_private)


def kind_of(conversation: str) -> ConversationKind | None:
    """Return the kind of a conversation, or None if the id is malformed."""
    return _cached_kind(conversation) if len(conversation) <= _LONGEST_CACHED else _kind_of(conversation)


def _kind_of(conversation: str) -> ConversationKind | None:
    if parse_private(conversation) is not None:
        return ConversationKind.PRIVATE
    if _GROUP.match(conversation):
        return ConversationKind.GROUP
    if _GATEWAY.match(conversation):
        return ConversationKind.SUB_BIZ
    if _CHANNEL.match(conversation):
        return ConversationKind.CHANNEL
    if parse_thread(conversation) is not None:
        return ConversationKind.THREAD
    return None


_cached_kind = lru_cache(maxsize=20_000)(_kind_of)


def gateway_id(sub_biz: str) -> ConversationId:
    """Return the id of the gateway that represents all conversations of one user in a subBiz."""
    return ConversationId(f"b_{sub_biz}")


def thread_id(parent: ConversationId, seq: int) -> ConversationId:
    """Return the id of the thread under the message at a seq of a private conversation, group or channel."""
    return ConversationId(f"t_{seq}_{parent}")


class ThreadPlace(NamedTuple):
    """The place of a thread: its parent conversation, and the seq of its parent message there."""

    parent: ConversationId
    seq: int


def parse_thread(conversation: str) -> ThreadPlace | None:
    """Return the place of a thread of a well-formed id, else None. Threads have no threads."""
    found = _THREAD.match(conversation)
    if found is None or kind_of(found[2]) is None:
        return None
    return ThreadPlace(ConversationId(found[2]), int(found[1]))


def without_thread(conversation: ConversationId) -> ConversationId:
    """Return the parent conversation of a thread; of any other conversation itself. Takes well-formed ids."""
    if not conversation.startswith("t_"):
        return conversation
    return ConversationId(conversation[2:].partition("_")[2])


def group_id(snowflake: int) -> ConversationId:
    """Return the id of the group that was created with a snowflake.

    Ids of groups created one after the other are far apart, so that their rows are distributed over the shards.
    """
    return ConversationId(f"g_{scatter(snowflake)}")


def scatter(snowflake: int) -> int:
    """Return the number of an id that was made from a snowflake. Different snowflakes have different numbers."""
    return snowflake * _ODD % (1 << 63)


def message_id(snowflake: int) -> str:
    """Return a message's id as the API writes it."""
    return f"m_{snowflake}"


def parse_message_id(text: str) -> MessageId | None:
    """Return the snowflake of a well-formed message id that fits 63 bits, else None."""
    if not _MESSAGE.match(text):
        return None
    number = int(text[2:])
    return MessageId(number) if number < 1 << 63 else None


def file_id(number: FileId) -> str:
    """Return a file's id as the API writes it."""
    return f"f_{number}"


def parse_file_id(text: str) -> FileId | None:
    """Return the number of a well-formed file id that fits 63 bits, else None."""
    if not _FILE.match(text):
        return None
    number = int(text[2:])
    return FileId(number) if number < 1 << 63 else None


def session_id(user: UserId, conversation: ConversationId) -> str:
    """Return a session's id as the API writes it."""
    return f"s_{encode_user(user)}_{conversation}"


def parse_session_id(text: str) -> tuple[UserId, ConversationId] | None:
    """Return the user and conversation of a well-formed session id, else None."""
    if not text.startswith("s_"):
        return None
    encoded, _, conversation = text[2:].partition("_")
    user = decode_user(encoded)
    if user is None or kind_of(conversation) is None:
        return None
    return user, ConversationId(conversation)


def partition_of(conversation: ConversationId) -> int:
    """Return the partition of a conversation, which is the hash tag of its keys. A thread has that of its parent.

    The same in all processes and releases.
    """
    return zlib.crc32(without_thread(conversation).encode()) % PARTITIONS


def bucket_of(seq: int) -> int:
    """Return the bucket of a seq."""
    return seq // BUCKET_SIZE
