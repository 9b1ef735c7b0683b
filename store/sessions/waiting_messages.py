"""Messages that wait to be applied to a session, as `_append.lua` notes them in the key `meta`."""

from __future__ import annotations

from typing import NamedTuple

from store.base.ids import ConversationId


class WaitingMessages(NamedTuple):
    """The waiting messages of one session.

    own_n: `n` of the user's own newest one, 0 if there is none. mention: one of them mentions the user.
    """

    own_n: int
    mention: bool


def waiting_field(conversation: ConversationId) -> str:
    """Return the field of `meta` with the messages that wait for a session."""
    return f"w:{conversation}"


def waiting_from(text: bytes | None) -> WaitingMessages:
    """Return the waiting messages in such a field; None: nothing waits."""
    if text is None:
        return WaitingMessages(0, False)
    *_, own_n = text.split(b" ", 8)[:8]
    return WaitingMessages(int(own_n), text.count(b" ") > 7)
