"""Checks the claims of a verified token."""

from __future__ import annotations

from typing import Any

from resolvers.base.errors import Unauthenticated
from resolvers.users.callers import Caller, CallerRole
from store.base.ids import USER_ID_RULE, UserId, is_user_id

LEEWAY_SECONDS = 5.0
"""Tolerated difference between the issuer's clock and this server's."""

LAST_SECOND = 253_402_300_799.0
"""Last second of the year 9999, the latest time that a DateTime can represent."""


def caller_of(claims: dict[str, Any], now: float, *, audience: str | None, issuer: str | None) -> Caller:
    """Return the caller of a verified token at the time `now`. With `audience` or `issuer` None, any value is accepted.

    Raises Unauthenticated with a reason that does not contain the claims' values.
    """
    expires_at = _time_claim(claims, "exp")
    if expires_at is None:
        raise Unauthenticated("The token has no exp claim.")
    if expires_at + LEEWAY_SECONDS <= now:
        raise Unauthenticated("The token has expired.")
    issued_at = _time_claim(claims, "iat")
    for name, since in (("nbf", _time_claim(claims, "nbf")), ("iat", issued_at)):
        if (since or 0) - LEEWAY_SECONDS > now:
            raise Unauthenticated(f"The token is not valid yet (its {name} claim is in the future).")
    _check_destination(claims, audience, issuer)
    user = claims.get("sub")
    if user is None:
        raise Unauthenticated("The token has no sub claim.")
    if not isinstance(user, str) or not is_user_id(user):
        raise Unauthenticated(f"The token's sub claim is not a user id: {USER_ID_RULE}.")
    return Caller(
        UserId(user),
        _role(claims),
        expires_at,
        name=_text_claim(claims, "name"),
        picture=_text_claim(claims, "picture"),
        issued_at=issued_at,
    )


def _check_destination(claims: dict[str, Any], audience: str | None, issuer: str | None) -> None:
    if issuer is not None and claims.get("iss") != issuer:
        raise Unauthenticated("The token comes from another issuer (iss claim).")
    if audience is None:
        return
    named = claims.get("aud")
    if audience not in (named if isinstance(named, list) else [named]):
        raise Unauthenticated("The token is for another audience (aud claim).")


def _time_claim(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # bool is an int in Python but not in JSON. NaN and times after LAST_SECOND fail the comparison.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_SECOND:
        raise Unauthenticated(f"The token's {name} claim is not a time in seconds.")
    return float(value)


def _text_claim(claims: dict[str, Any], name: str) -> str | None:
    value = claims.get(name)
    if value is not None and not isinstance(value, str):
        raise Unauthenticated(f"The token's {name} claim is not a text.")
    return value or None


def _role(claims: dict[str, Any]) -> CallerRole:
    value = claims.get("role")
    if value is None:
        return CallerRole.USER
    try:
        return CallerRole(value)
    except ValueError as error:
        raise Unauthenticated("The token's role claim should be user, service or admin.") from error
