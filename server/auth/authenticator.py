"""Who is asking: JSON Web Tokens checked, and issued for development."""

from __future__ import annotations

import hashlib
import math
import time
from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import Any

import jwt

from resolvers.base.errors import InvalidInput, Unauthenticated
from resolvers.users.callers import Caller, CallerRole
from server.auth.jwks import ALGORITHMS, Clock, JwksError, KeySet, PublicKey, from_file, from_url, parse_jwks
from server.auth.token_claims import LAST_SECOND, LEEWAY, caller_of
from server.settings import Settings, SettingsError, variable
from store.base.ids import is_user_id

MAX_TOKEN_LENGTH = 8192
REMEMBERED = 20_000
"""Tokens found good that are not checked again; the oldest go first."""

REMEMBERED_FOR = 300.0
"""Seconds after which a token is checked again all the same, so that a withdrawn key takes effect."""

_SIGNATURE_ONLY: Any = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
    "enforce_minimum_key_length": True,
}


def bearer_token(header: str | None) -> str | None:
    """The token in an Authorization header; None where there is no header.

    Raises Unauthenticated for any other scheme, and where the token is missing.
    """
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("The Authorization header should read: Bearer <token>.")
    return token.strip()


class Authenticator:
    """Checks tokens. The header's alg decides, strictly: HS256 is checked against the secret and nothing else,
    RS256, ES256 and EdDSA against a public key of just that type and nothing else.

    Raises SettingsError where the secret or the JWK set file is of no use.
    """

    def __init__(self, settings: Settings, clock: Clock = time.time) -> None:
        self._clock = clock
        self._audience = settings.jwt_audience
        self._issuer = settings.jwt_issuer
        self._secret = _secret_key(settings)
        self._key_sets = _key_sets(settings, clock)
        self._remembered: dict[bytes, tuple[Caller, float]] = {}

    async def authenticate(self, token: str) -> Caller:
        """The caller a token speaks for.

        Raises Unauthenticated with the reason, fit to be shown, and Unavailable while the public keys cannot be
        fetched.
        """
        if len(token) > MAX_TOKEN_LENGTH:
            raise Unauthenticated(f"The token is longer than {MAX_TOKEN_LENGTH} characters.")
        now = self._clock()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        known = self._remembered.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        claims, key = await self._verified_claims(token)
        caller = caller_of(claims, self._clock(), audience=self._audience, issuer=self._issuer)
        caller = replace(caller, key=key)
        self._remember(digest, caller, now)
        return caller

    def is_withdrawn(self, caller: Caller) -> bool:
        """Whether the key that a caller's token was signed with is not in force any more, as far as is known."""
        key = caller.key
        return isinstance(key, PublicKey) and not any(keys.holds(key) for keys in self._key_sets)

    async def refresh_keys(self) -> None:
        """Reads the public keys anew. Those at hand stay in force where that can't be done."""
        for keys in self._key_sets:
            await keys.refresh()

    def _remember(self, digest: bytes, caller: Caller, now: float) -> None:
        self._remembered.pop(digest, None)
        if len(self._remembered) >= REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = caller, min(caller.expires_at + LEEWAY, now + REMEMBERED_FOR)

    async def _verified_claims(self, token: str) -> tuple[dict[str, Any], PublicKey | None]:
        """What a token claims, and the public key that vouches for it; None: the secret does."""
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, UnicodeError) as error:
            raise Unauthenticated("The token is no well-formed JWT.") from error
        public = await self._public_key(header)
        key = self._secret if public is None else public.jwk
        assert key is not None
        try:
            return jwt.decode(token, key, algorithms=[key.algorithm_name], options=_SIGNATURE_ONLY), public
        except jwt.InvalidSignatureError as error:
            raise Unauthenticated("The token's signature is wrong: it was signed with another key.") from error
        except jwt.PyJWTError as error:
            raise Unauthenticated("The token is no well-formed JWT.") from error

    async def _public_key(self, header: dict[str, Any]) -> PublicKey | None:
        """The public key that a token says it is signed with; None: it is the secret."""
        algorithm = str(header.get("alg"))
        if algorithm == "HS256" and self._secret is not None:
            return None
        if algorithm not in ALGORITHMS.values() or not self._key_sets:
            raise Unauthenticated("The token's signing algorithm is not accepted here.")
        for keys in self._key_sets:
            key = await keys.find(header.get("kid"), algorithm)
            if key is not None:
                return key
        raise Unauthenticated("The token is signed with a key that is not known here.")


def issue_token(
    settings: Settings,
    user: str,
    role: CallerRole = CallerRole.USER,
    name: str | None = None,
    ttl: float = 86_400.0,
    *,
    clock: Clock = time.time,
) -> str:
    """A token signed with the secret, good for `ttl` seconds.

    Raises InvalidInput where user is no user id or ttl not above 0, SettingsError where no secret is set.
    """
    secret = _secret_key(settings)
    if secret is None:
        raise SettingsError([f"{variable('jwt_secret')} is not set, and only with it can a token be signed."])
    if not is_user_id(user):
        raise InvalidInput(
            "A user id is 1 to 64 letters, digits, '.', '@' or '-', a letter or digit first.", field="user"
        )
    now = clock()
    if not 0 < ttl < LAST_SECOND - now:
        raise InvalidInput("A token's time to live is a number of seconds above 0.", field="ttl")
    claims = {
        "sub": user,
        "role": role.value,
        "iat": int(now),
        "exp": math.ceil(now + ttl),
        "name": name,
        "iss": settings.jwt_issuer,
        "aud": settings.jwt_audience,
    }
    present = {claim: value for claim, value in claims.items() if value is not None}
    return jwt.encode(present, secret, algorithm="HS256")


def _secret_key(settings: Settings) -> jwt.PyJWK | None:
    if settings.jwt_secret is None:
        return None
    secret = settings.jwt_secret.get_secret_value().encode()
    key = jwt.PyJWK({"kty": "oct", "k": urlsafe_b64encode(secret).decode()}, "HS256")
    try:
        key.Algorithm.prepare_key(secret)
    except jwt.InvalidKeyError as error:
        raise SettingsError(
            [f"{variable('jwt_secret')} is a public or private key; it should be a secret for HS256."]
        ) from error
    return key


def _key_sets(settings: Settings, clock: Clock) -> tuple[KeySet, ...]:
    key_sets = []
    if settings.jwks_file is not None:
        try:
            parse_jwks(settings.jwks_file.read_bytes())
        except (OSError, JwksError) as error:
            raise SettingsError([f"{variable('jwks_file')} is of no use: {error}."]) from error
        key_sets.append(KeySet(from_file(settings.jwks_file), clock))
    if settings.jwks_url is not None:
        key_sets.append(KeySet(from_url(settings.jwks_url), clock))
    return tuple(key_sets)
