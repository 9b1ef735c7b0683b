"""Who is asking."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from store.ids import UserId


class CallerRole(StrEnum):
    """What a token may do beyond its own user's business."""

    USER = "user"
    SERVICE = "service"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated user, as the token says. `expires_at` in seconds since the epoch."""

    user_id: UserId
    role: CallerRole
    expires_at: float
    name: str | None = None
    picture: str | None = None
