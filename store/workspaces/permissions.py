"""Permissions: names, bits, and groups of them. Values are stored: new ones are added at the end."""

from __future__ import annotations

from enum import IntFlag
from typing import Self


class Permission(IntFlag):
    """Things that a member may do. The order is that of the contract: bit n is the n-th value of the API's enum."""

    ADMINISTRATOR = 1 << 0
    VIEW_CHANNEL = 1 << 1
    READ_HISTORY = 1 << 2
    SEND_MESSAGES = 1 << 3
    SEND_THREADS = 1 << 4
    CREATE_THREADS = 1 << 5
    ATTACH_FILES = 1 << 6
    EMBED_LINKS = 1 << 7
    MENTION_EVERYONE = 1 << 8
    ADD_REACTIONS = 1 << 9
    PIN_MESSAGES = 1 << 10
    MANAGE_MESSAGES = 1 << 11
    MANAGE_THREADS = 1 << 12
    BYPASS_SLOW_MODE = 1 << 13
    CREATE_INVITES = 1 << 14
    INVITE_MEMBERS = 1 << 15
    CHANGE_NICKNAME = 1 << 16
    MANAGE_NICKNAMES = 1 << 17
    MANAGE_CHANNELS = 1 << 18
    MANAGE_ROLES = 1 << 19
    MANAGE_WORKSPACE = 1 << 20
    MANAGE_WEBHOOKS = 1 << 21
    KICK_MEMBERS = 1 << 22
    BAN_MEMBERS = 1 << 23
    TIMEOUT_MEMBERS = 1 << 24
    VIEW_AUDIT_LOG = 1 << 25
    VIEW_REPORTS = 1 << 26
    CONNECT = 1 << 27
    SPEAK = 1 << 28
    VIDEO = 1 << 29
    MUTE_OTHERS = 1 << 30
    DEAFEN_OTHERS = 1 << 31
    MOVE_OTHERS = 1 << 32

    # Enum's own goes by the name, which combinations do not have here.
    __hash__ = int.__hash__

    @classmethod
    def _missing_(cls, value: object) -> Self:
        """Return a combination, or bits that a later version has. Enum would keep each of them for ever."""
        if not isinstance(value, int):
            raise ValueError(f"{value!r} is not a permission")
        combination = int.__new__(cls, value & _ALL_BITS)
        combination._name_ = None
        combination._value_ = value & _ALL_BITS
        return combination


_ALL_BITS = (1 << 52) - 1
"""Bits that a permission may have: a client reads them as a JSON number."""


P = Permission

NOTHING = Permission(0)

EVERYTHING = Permission((1 << len(Permission)) - 1)

OF_EVERYONE = (
    P.VIEW_CHANNEL | P.READ_HISTORY | P.SEND_MESSAGES | P.SEND_THREADS | P.CREATE_THREADS | P.ATTACH_FILES
    | P.EMBED_LINKS | P.ADD_REACTIONS | P.CREATE_INVITES | P.CHANGE_NICKNAME | P.CONNECT | P.SPEAK | P.VIDEO
)  # fmt: skip
"""Permissions of the role of everyone in a new workspace."""

NEEDS_SENDING = (
    P.SEND_THREADS | P.CREATE_THREADS | P.ATTACH_FILES | P.EMBED_LINKS | P.MENTION_EVERYONE
)  # fmt: skip
"""Permissions that nobody has without SEND_MESSAGES."""

WRITING = P.SEND_MESSAGES | NEEDS_SENDING | P.ADD_REACTIONS | P.PIN_MESSAGES
"""Permissions that nobody has in an archived channel."""

WHILE_TIMED_OUT = P.VIEW_CHANNEL | P.READ_HISTORY
"""Permissions that a member with a time-out keeps."""
