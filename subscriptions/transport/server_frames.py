"""The WebSocket frames of a server (RFC 6455, 5.2): not masked, and without state, so they need no protocol object."""

from __future__ import annotations

from struct import Struct

TEXT = 0x81
"""First byte of a text message in one frame."""

_SHORT_HEADER = Struct("!BB")
_HEADER = Struct("!BBH")
_LONG_HEADER = Struct("!BBQ")


def text_frame(*message: bytes) -> bytes:
    """Return the frame of one text message, joined from these parts."""
    size = sum(map(len, message))
    if size < 126:
        header = _SHORT_HEADER.pack(TEXT, size)
    elif size < 65_536:
        header = _HEADER.pack(TEXT, 126, size)
    else:
        header = _LONG_HEADER.pack(TEXT, 127, size)
    return b"".join((header, *message))
