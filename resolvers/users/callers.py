"""Callers: authenticated users, and services that act for a user."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from resolvers.base.errors import Forbidden, InvalidInput
from store.base.ids import UserId, is_user_id


class CallerRole(StrEnum):
    """Rights of a token beyond its own user's data."""

    USER = "user"
    SERVICE = "service"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated user, from the claims of the token. Times in seconds since the epoch.

    `user_id`: the user in whose name the request is executed. `acted_by`: the token's user if that is another one, who
    acts for `user_id`. `role`: always that of the token. `issued_at`: None if the token has no `iat`. `key`: the
    authenticator's reference to the key that signed the token.
    """

    user_id: UserId
    role: CallerRole
    expires_at: float
    name: str | None = None
    picture: str | None = None
    issued_at: float | None = None
    acted_by: UserId | None = None
    key: object = field(default=None, compare=False, repr=False)

    @property
    def token_user(self) -> UserId:
        """The user that the token was issued to."""
        return self.acted_by or self.user_id


def act_as(caller: Caller, user: str | None, field: str) -> Caller:
    """Return the caller acting for a user. Only services and admins may. None, or their own id, changes nothing.

    Raises Forbidden, and InvalidInput if the text is not a user id. `field`: the field or header that contains it.
    """
    if user is None:
        return caller
    if caller.role not in (CallerRole.SERVICE, CallerRole.ADMIN):
        raise Forbidden("only callers with role service or admin may act for a user", field=field)
    if not is_user_id(user):
        raise InvalidInput("name the user to act for by a user id", field=field)
    if user == caller.token_user:
        return caller
    # The token's name and picture are not those of the user.
    return replace(caller, user_id=UserId(user), acted_by=caller.token_user, name=None, picture=None)


def check_is_admin(caller: Caller) -> None:
    """Raise Forbidden unless the caller's token has role admin."""
    if caller.role is not CallerRole.ADMIN:
        raise Forbidden("only callers with role admin may do this for the whole deployment")
