"""Checks JSON Web Tokens, and issues them with the shared secret."""

from __future__ import annotations

import hashlib
import math
import time
from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import Any

import jwt
from pydantic import SecretStr

from resolvers.base.errors import InvalidInput, Unauthenticated
from resolvers.users.callers import Caller, CallerRole
from server.auth.ignored_claims import IgnoredClaimsLog
from server.auth.jwks import ALGORITHMS, Clock, JwksError, KeySet, PublicKey, load_from_file, load_from_url, parse_jwks
from server.auth.token_claims import LAST_SECOND, LEEWAY_SECONDS, ClaimRules, caller_of
from server.settings import Settings, SettingsError, variable
from store.base.ids import USER_ID_RULE, is_user_id

MAX_TOKEN_LENGTH = 8192
MAX_CACHED_TOKENS = 20_000
"""Valid tokens that are not checked again. The oldest are dropped first."""

MAX_CACHED_HEADERS = 16
"""Headers of tokens that are not parsed again."""

TOKEN_CACHE_SECONDS = 300.0
"""Time after which a cached token is checked again, so that the withdrawal of a key takes effect."""

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
    """Return the token of an Authorization header, or None without a header.

    Raises Unauthenticated for any other scheme, and if the token is missing.
    """
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("The Authorization header should read: Bearer <token>.")
    return token.strip()


class Authenticator:
    """Checks tokens.

    The header's alg decides which keys are used: HS256 is checked with the secrets only. Any other algorithm is checked
    only with public keys for that algorithm. Raises SettingsError if a secret or the JWK set file is unusable.
    """

    def __init__(self, settings: Settings, clock: Clock = time.time) -> None:
        self._clock = clock
        self._rules = ClaimRules.from_settings(settings)
        self._secrets = _secret_keys(settings)
        self._key_sets = _key_sets(settings, clock)
        self._cache: dict[bytes, tuple[Caller, float]] = {}
        self._headers: dict[str, dict[str, Any]] = {}
        """Parsed headers. An issuer's tokens usually have the same one."""
        self._ignored_claims = IgnoredClaimsLog()

    async def authenticate(self, token: str) -> Caller:
        """Return the caller of a token.

        Raises Unauthenticated with a reason that may be sent to the client, and Unavailable while the public keys
        cannot be fetched.
        """
        if len(token) > MAX_TOKEN_LENGTH:
            raise Unauthenticated(f"The token is longer than {MAX_TOKEN_LENGTH} characters.")
        now = self._clock()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        cached = self._cache.get(digest)
        if cached is not None and now < cached[1]:
            return cached[0]
        claims, key = await self._verified_claims(token)
        caller = caller_of(claims, self._clock(), self._rules, self._ignored_claims.log)
        caller = replace(caller, key=key)
        self._add_to_cache(digest, caller, now)
        return caller

    def is_withdrawn(self, caller: Caller) -> bool:
        """Return whether the key that signed the caller's token is no longer in the JWK set as last read."""
        key = caller.key
        return isinstance(key, PublicKey) and not any(key_set.contains(key) for key_set in self._key_sets)

    async def refresh_keys(self) -> None:
        """Read the public keys again. If that fails, the current keys stay in force."""
        for key_set in self._key_sets:
            await key_set.refresh()

    def _add_to_cache(self, digest: bytes, caller: Caller, now: float) -> None:
        self._cache.pop(digest, None)
        if len(self._cache) >= MAX_CACHED_TOKENS:
            del self._cache[next(iter(self._cache))]
        self._cache[digest] = caller, min(caller.expires_at + LEEWAY_SECONDS, now + TOKEN_CACHE_SECONDS)

    async def _verified_claims(self, token: str) -> tuple[dict[str, Any], PublicKey | None]:
        """Return the claims of a token, and the public key that signed it. None means a secret."""
        header = self._header_of(token)
        public = await self._public_key(header)
        for key in self._secrets if public is None else (public.jwk,):
            try:
                return jwt.decode(token, key, algorithms=[key.algorithm_name], options=_SIGNATURE_ONLY), public
            except jwt.InvalidSignatureError:
                continue
            except (jwt.PyJWTError, UnicodeError) as error:
                raise Unauthenticated("The token is not a well-formed JWT.") from error
        raise Unauthenticated("The token's signature is wrong: sign it with a key that this server knows.")

    def _header_of(self, token: str) -> dict[str, Any]:
        """Return the header of a token, which is not verified yet."""
        segment = token.partition(".")[0]
        header = self._headers.get(segment)
        if header is None:
            try:
                header = jwt.get_unverified_header(token)
            except (jwt.PyJWTError, UnicodeError) as error:
                raise Unauthenticated("The token is not a well-formed JWT.") from error
            if len(self._headers) >= MAX_CACHED_HEADERS:
                del self._headers[next(iter(self._headers))]
            self._headers[segment] = header
        return header

    async def _public_key(self, header: dict[str, Any]) -> PublicKey | None:
        """Return the public key that a token's header names. None means the secrets."""
        algorithm = str(header.get("alg"))
        if algorithm == "HS256" and self._secrets:
            return None
        if algorithm not in ALGORITHMS or not self._key_sets:
            raise Unauthenticated("The token's signing algorithm (alg in its header) is not accepted by this server.")
        for key_set in self._key_sets:
            key = await key_set.find(header.get("kid"), algorithm)
            if key is not None:
                return key
        raise Unauthenticated("The token is signed with a key that this server does not know.")


def issue_token(
    settings: Settings,
    user: str,
    role: CallerRole = CallerRole.USER,
    name: str | None = None,
    ttl_seconds: float = 86_400.0,
    *,
    clock: Clock = time.time,
) -> str:
    """Return a token signed with the secret, valid for `ttl_seconds`, that servers with these settings accept.

    Raises InvalidInput if `user` is not a user id or the time is not above 0, and SettingsError if no secret is set.
    """
    if settings.jwt_secret is None:
        raise SettingsError([f"{variable('jwt_secret')} is not set: a token can only be signed with it."])
    if not is_user_id(user):
        raise InvalidInput(f"A user id is {USER_ID_RULE}.", field="user")
    now = clock()
    if not 0 < ttl_seconds < LAST_SECOND - now:
        raise InvalidInput("A token's time to live should be a number of seconds above 0.", field="ttl")
    rules = ClaimRules.from_settings(settings)
    # A path such as `a.b` is written as one claim of that name: `find_claim` looks for the whole text first.
    claims = {
        rules.name: name,
        rules.audience: next(iter(rules.audiences), None),
        rules.role: role.value,
        rules.user: user,
        "iss": rules.issuer,
        "iat": int(now),
        "exp": math.ceil(now + ttl_seconds),
    }
    present = {claim: value for claim, value in claims.items() if value is not None}
    return jwt.encode(present, _secret_key(settings.jwt_secret, "jwt_secret"), algorithm="HS256")


def _secret_keys(settings: Settings) -> tuple[jwt.PyJWK, ...]:
    """Return the keys of the secrets. Tokens are signed with the first, if there is a current secret."""
    current = () if settings.jwt_secret is None else (_secret_key(settings.jwt_secret, "jwt_secret"),)
    return current + tuple(_secret_key(secret, "jwt_previous_secrets") for secret in settings.jwt_previous_secrets)


def _secret_key(value: SecretStr, field: str) -> jwt.PyJWK:
    secret = value.get_secret_value().encode()
    key = jwt.PyJWK({"kty": "oct", "k": urlsafe_b64encode(secret).decode()}, "HS256")
    try:
        key.Algorithm.prepare_key(secret)
    except jwt.InvalidKeyError as error:
        raise SettingsError(
            [f"{variable(field)} contains a public or private key, but should contain a secret for HS256."]
        ) from error
    return key


def _key_sets(settings: Settings, clock: Clock) -> tuple[KeySet, ...]:
    key_sets = []
    if settings.jwks_file is not None:
        try:
            parse_jwks(settings.jwks_file.read_bytes())
        except (OSError, JwksError) as error:
            raise SettingsError([f"{variable('jwks_file')} cannot be used: {error}."]) from error
        key_sets.append(KeySet(load_from_file(settings.jwks_file), clock))
    if settings.jwks_url is not None:
        key_sets.append(KeySet(load_from_url(settings.jwks_url), clock))
    return tuple(key_sets)
