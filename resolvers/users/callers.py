"""Callers: authenticated users."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from store.base.ids import UserId


class CallerRole(StrEnum):
    """Rights of a token beyond its own user's data."""

    USER = "user"
    SERVICE = "service"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated user, from the claims of the token. Times in seconds since the epoch.

    `issued_at`: None if the token has no `iat`. `key`: the authenticator's own reference to the key that signed the
    token.
    """

    user_id: UserId
    role: CallerRole
    expires_at: float
    name: str | None = None
    picture: str | None = None
    issued_at: float | None = None
    key: object = field(default=None, compare=False, repr=False)
