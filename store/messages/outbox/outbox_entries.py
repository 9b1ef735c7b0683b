"""Entries of the outbox: a Redis stream per partition."""

from __future__ import annotations

from typing import Any

import orjson

from store.conversations.group_change import group_change_from
from store.messages.message import ReservedMessage, message_from


class OutboxField:
    """Stored names of an outbox entry's fields.

    A revision of a stored message is an entry too: its SEQ and N are 0, its MESSAGE is "{}". Every entry has
    CONVERSATION, SEQ, N and MESSAGE, because scripts read them. A server does not touch entries that only a later
    version understands: entries with a KIND, with an unknown kind of revision, or that it cannot parse (ADR 104).
    """

    KIND = "kd"
    """Kind of an entry that is no message, revision or note of a thread. This version has none."""
    CONVERSATION = "c"
    SEQ = "s"
    N = "n"
    MESSAGE = "m"
    """The message (JSON), without its place."""
    GROUP_CHANGE = "g"
    """The group change that the message announces (JSON)."""
    REVISION = "v"
    """[message, seq, kind, edits of the message after it] (JSON)."""
    REACTIONS = "x"
    """In place of a revision's kind: the version of the message's reactions before they change.

    A server that does not know the field takes the entry for an edit that was made, and announces the message again.
    """
    EMBEDS = "eb"
    """In place of a revision's kind: the version of the message's embeds before they change. As REACTIONS for servers
    that do not know the field.
    """
    THREAD = "th"
    """"1" in a note that the events of a changed thread have to be sent; SEQ in REVISION is that of the parent message.

    A server that does not know the field takes the entry for an edit that was never made.
    """


def entry_values(fields: Any) -> dict[bytes, bytes]:
    """Return an entry's fields by stored name. Redis clients return either a dict or a flat list."""
    return fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))


def reserved_message_from(entry: str, fields: Any) -> ReservedMessage:
    """Return the message of an outbox entry. Its membership version is not known."""
    values = entry_values(fields)
    seq, n = int(values[OutboxField.SEQ.encode()]), int(values[OutboxField.N.encode()])
    message = message_from(orjson.loads(values[OutboxField.MESSAGE.encode()])).with_place(seq, n)
    change = values.get(OutboxField.GROUP_CHANGE.encode())
    return ReservedMessage(message, "", entry, group_change_from(orjson.loads(change)) if change else None)
