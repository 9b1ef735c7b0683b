"""Checks the claims of a verified token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from resolvers.base.checks import check_avatar_url
from resolvers.base.errors import InvalidInput, Unauthenticated
from resolvers.base.names import accept_external_name
from resolvers.users.callers import Caller, CallerRole
from server.auth.claim_paths import find_claim
from server.settings import Settings
from store.base.ids import USER_ID_RULE, UserId, is_user_id

LEEWAY_SECONDS = 5.0
"""Tolerated difference between the issuer's clock and this server's."""

LAST_SECOND = 253_402_300_799.0
"""Last second of the year 9999, the latest time that a DateTime can represent."""

_ROLES = (CallerRole.ADMIN, CallerRole.SERVICE)
"""Roles with additional rights, the strongest first."""

ReportIgnoredClaim = Callable[[UserId, str, str], None]
"""Called with the user, the ignored claim, and the reason, which does not contain the claim's value."""


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """Claims that are read from tokens, by name or path, and values that they must have.

    `audiences`: the claim `audience` must contain one of them; if empty, any value is accepted. `issuer`: if None, any
    value is accepted.
    """

    user: str
    name: str
    picture: str
    role: str
    audience: str
    audiences: tuple[str, ...]
    issuer: str | None

    @classmethod
    def from_settings(cls, settings: Settings) -> ClaimRules:
        """Return the rules that the settings define."""
        return cls(
            user=settings.jwt_user_claim,
            name=settings.jwt_name_claim,
            picture=settings.jwt_picture_claim,
            role=settings.jwt_role_claim,
            audience=settings.jwt_audience_claim,
            audiences=settings.jwt_audience,
            issuer=settings.jwt_issuer,
        )


def caller_of(claims: dict[str, Any], now: float, rules: ClaimRules, report_ignored: ReportIgnoredClaim) -> Caller:
    """Return the caller of a verified token at the time `now`, in seconds since the epoch.

    A name or a picture that cannot be shown to others is ignored and reported. Raises Unauthenticated with a reason
    that does not contain the claims' values.
    """
    expires_at = _time_claim(claims, "exp")
    if expires_at is None:
        raise Unauthenticated("The token has no exp claim, which says when it expires.")
    if expires_at + LEEWAY_SECONDS <= now:
        raise Unauthenticated("The token has expired.")
    issued_at = _time_claim(claims, "iat")
    for name, since in (("nbf", _time_claim(claims, "nbf")), ("iat", issued_at)):
        if (since or 0) - LEEWAY_SECONDS > now:
            raise Unauthenticated(f"The token is not valid yet (its {name} claim is in the future).")
    _check_issuer_and_audience(claims, rules)
    user = _user(claims, rules.user)

    def accepted(claim: str, accept: Callable[[str, str], str]) -> str | None:
        try:
            return _optional_text(find_claim(claims, claim), claim, accept)
        except InvalidInput as invalid:
            report_ignored(user, claim, invalid.message)
            return None

    return Caller(
        user,
        _role(find_claim(claims, rules.role)),
        expires_at,
        name=accepted(rules.name, accept_external_name),
        picture=accepted(rules.picture, _accept_picture),
        issued_at=issued_at,
    )


def _check_issuer_and_audience(claims: dict[str, Any], rules: ClaimRules) -> None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise Unauthenticated("The token comes from another issuer (iss claim) than this server accepts.")
    if not rules.audiences:
        return
    named = find_claim(claims, rules.audience)
    if not any(audience in rules.audiences for audience in (named if isinstance(named, list) else [named])):
        raise Unauthenticated(f"The token is for another audience ({rules.audience} claim) than this server.")


def _user(claims: dict[str, Any], claim: str) -> UserId:
    user = find_claim(claims, claim)
    if user is None:
        raise Unauthenticated(f"The token has no {claim} claim, which names the user.")
    if not isinstance(user, str) or not is_user_id(user):
        raise Unauthenticated(f"The token's {claim} claim is not a user id: {USER_ID_RULE}.")
    return UserId(user)


def _time_claim(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    # bool is an int in Python but not in JSON. NaN and times after LAST_SECOND fail the comparison.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_SECOND:
        raise Unauthenticated(f"The token's {name} claim is not a time in seconds.")
    return float(value)


def _optional_text(value: Any, claim: str, accept: Callable[[str, str], str]) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{claim} is not a string", field=claim)
    return accept(value, claim)


def _accept_picture(url: str, claim: str) -> str:
    check_avatar_url(url, claim)
    return url


def _role(value: Any) -> CallerRole:
    """Return the strongest role of a claim, which is a role or a list of roles. Anything else means USER."""
    roles = value if isinstance(value, list) else [value]
    return next((role for role in _ROLES if role.value in roles), CallerRole.USER)
