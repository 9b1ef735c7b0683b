"""Cursors: opaque to clients, valid on all servers of the deployment.

A sync cursor is a position on one user's clock. If it can't be used, the client gets a reset, never an error. A page
cursor is a position in a list. A cursor of another list is an error.
"""

from __future__ import annotations

import base64
import binascii

from resolvers.base.errors import InvalidInput
from store.base.ids import UserId
from subscriptions.realtime.mailboxes import Position

_LONGEST = 8_000
"""Characters. No cursor is longer, even with the longest user id and conversation id."""


class SyncCursors:
    """Encodes positions on one user's clock. The part before the tick rarely changes, and is kept encoded."""

    __slots__ = ("_deployment", "_encoded", "_key", "_rest", "_user")

    def __init__(self, deployment: str, user: UserId) -> None:
        self._deployment = deployment
        self._user = user
        self._key: tuple[str, int] | None = None
        self._encoded = self._rest = b""

    def encode(self, at: Position) -> bytes:
        """Return a position as a cursor of the API, in ASCII."""
        epoch, tick, ahead, began = at[:4]
        if self._key != (epoch, began):
            self._encode_start(epoch, began)
        ticks = b"%d" % tick
        if ahead:
            ticks = b"\n".join((ticks, *(b"%d" % later for later in ahead)))
        # Digits and newlines need none of the characters that differ in the URL-safe alphabet.
        return self._encoded + binascii.b2a_base64(self._rest + ticks, newline=False).rstrip(b"=")

    def _encode_start(self, epoch: str, began: int) -> None:
        start = f"c1\n{self._deployment}\n{self._user}\n{epoch}\n{began}\n".encode()
        # Base64 encodes three bytes at a time. The rest is one of the digits or newlines at the end.
        end = len(start) - len(start) % 3
        self._encoded, self._rest = base64.urlsafe_b64encode(start[:end]), start[end:]
        self._key = (epoch, began)


def encode_sync(deployment: str, user: UserId, at: Position) -> str:
    """Return a position on the user's clock as a cursor of the API."""
    if at.channels_ms:
        numbers = (at.began, at.channels_ms, at.channels_end_ms, at.tick)
        return _encode("\n".join(("c2", deployment, user, at.epoch, at.channel, *map(str, numbers))))
    return SyncCursors(deployment, user).encode(at).decode()


def decode_sync(deployment: str, user: UserId, text: str) -> Position | None:
    """Return the position of a cursor; None if it is invalid, or of another user or deployment."""
    parts = (_decode(text) or "").split("\n")
    if len(parts) < 6 or parts[1:3] != [deployment, user]:
        return None
    if parts[0] == "c2" and len(parts) == 9 and all(map(is_number, parts[5:])):
        began, channels_ms, channels_end_ms, tick = map(int, parts[5:])
        return Position(parts[3], tick, (), began, channels_ms, channels_end_ms, parts[4])
    if parts[0] != "c1" or not all(map(is_number, parts[4:])):
        return None
    began, tick, *ahead = map(int, parts[4:])
    return Position(parts[3], tick, tuple(ahead), began)


def encode_page(kind: str, *parts: str | int) -> str:
    """Return a position in a list of some kind as a cursor of the API."""
    return _encode("\n".join((kind, *map(str, parts))))


def decode_page(kind: str, text: str, field: str) -> list[str]:
    """Return the parts of a position in a list of that kind. Raises InvalidInput for any other text."""
    found, *parts = (_decode(text) or "").split("\n")
    if found != kind:
        raise InvalidInput(f"{field} must be a cursor of this list", field=field)
    return parts


def decode_page_number(kind: str, text: str, field: str) -> int:
    """Like decode_page, for a position that is one number."""
    parts = decode_page(kind, text, field)
    if len(parts) != 1 or not is_number(parts[0]):
        raise InvalidInput(f"{field} must be a cursor of this list", field=field)
    return int(parts[0])


def decode_page_text(kind: str, text: str | None, field: str) -> str | None:
    """Return the position in a cursor that consists of one text; None if there is no cursor. Raises InvalidInput."""
    if text is None:
        return None
    parts = decode_page(kind, text, field)
    if len(parts) != 1:
        raise InvalidInput(f"{field} must be a cursor of this list", field=field)
    return parts[0]


def is_number(text: str) -> bool:
    """Return whether a text is a number in the form that cursors use."""
    return text.isascii() and text.isdigit() and len(text) < 17


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(text: str) -> str | None:
    if len(text) > _LONGEST:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
