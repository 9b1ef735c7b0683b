"""Who is asking."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from store.base.ids import UserId


class CallerRole(StrEnum):
    """What a token may do beyond its own user's business."""

    USER = "user"
    SERVICE = "service"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated user, as the token says. Times in seconds since the epoch; `issued_at` None: it doesn't say.

    `key`: what the authenticator knows the key by that the token was signed with; nobody else looks into it.
    """

    user_id: UserId
    role: CallerRole
    expires_at: float
    name: str | None = None
    picture: str | None = None
    issued_at: float | None = None
    key: object = field(default=None, compare=False, repr=False)
