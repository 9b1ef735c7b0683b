"""The public keys that tokens are checked against: a JWK set behind an address or in a file, kept fresh."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import structlog
from jwt import PyJWK, PyJWTError

from resolvers.base.errors import Unavailable

log = structlog.get_logger(__name__)

Clock = Callable[[], float]
"""Seconds since the epoch."""

FRESH_FOR = 300.0
"""Seconds after which the set is fetched again, in the background."""

PAUSE = 10.0
"""Seconds between two fetches at the least, however many unknown key ids are tried and however often it fails."""

TIMEOUT = 5.0
"""Seconds that one fetch may take."""

ALGORITHMS = {("RSA", None): "RS256", ("EC", "P-256"): "ES256", ("OKP", "Ed25519"): "EdDSA"}
"""The one algorithm a key of each type (kty, crv) may verify. What is not here verifies nothing."""

_PUBLIC_MEMBERS = ("kty", "crv", "n", "e", "x", "y")


class JwksError(Exception):
    """What was read is no JWK set with a key of use."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key and what it is known by. Two are equal where they are the same key under the same name."""

    kid: str | None
    algorithm: str
    members: tuple[tuple[str, Any], ...]
    jwk: PyJWK = field(compare=False)


def parse_jwks(document: bytes) -> tuple[PublicKey, ...]:
    """The signing keys of a JWK set. Others in it (encryption, symmetric, weak, unknown) are passed over.

    Raises JwksError where none is left.
    """
    try:
        members = orjson.loads(document)["keys"]
        keys = tuple(key for member in members if (key := _public_key(member)) is not None)
    except (ValueError, KeyError, TypeError) as error:
        raise JwksError("not a JWK set") from error
    if not keys:
        raise JwksError(f"no signing key for {', '.join(ALGORITHMS.values())} in the JWK set")
    return keys


def _public_key(member: Any) -> PublicKey | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    operations = member.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    kty, kid = str(member.get("kty")), member.get("kid")
    algorithm = ALGORITHMS.get((kty, None if kty == "RSA" else str(member.get("crv"))))
    if algorithm is None or member.get("alg", algorithm) != algorithm:
        return None
    if kid is not None and not isinstance(kid, str):
        return None
    public = {name: member[name] for name in _PUBLIC_MEMBERS if name in member}
    try:
        jwk = PyJWK(public, algorithm)
    except PyJWTError:
        return None
    return None if jwk.Algorithm.check_key_length(jwk.key) else PublicKey(kid, algorithm, tuple(public.items()), jwk)


class KeySet:
    """The keys of one JWK set. Concurrent callers share one fetch.

    Keys once read stay in force while the set cannot be fetched. `load` gives the document, or raises whatever it may.
    """

    def __init__(self, load: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._keys: tuple[PublicKey, ...] = ()
        self._tried_at = float("-inf")
        self._read_at = float("-inf")
        self._fetch: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key a token's header names; without a kid the only one for the algorithm.

        An unknown kid makes the set be fetched again, at most every PAUSE seconds. Raises Unavailable
        where no set could be had so far.
        """
        if self._keys and self._clock() - self._read_at > FRESH_FOR:
            self._start_fetch()
        key = self._pick(kid, algorithm)
        if key is None:
            fetch = self._start_fetch()
            if fetch is not None:
                await asyncio.shield(fetch)
                key = self._pick(kid, algorithm)
        if not self._keys:
            raise Unavailable("The keys that tokens are checked against cannot be fetched just now.")
        return key

    def holds(self, key: PublicKey) -> bool:
        """Whether a key is one of the set's, as it was last read."""
        return key in self._keys

    async def refresh(self) -> None:
        """Reads a set that is in use anew, unless that was tried less than PAUSE seconds ago."""
        fetch = self._start_fetch() if self._keys else None
        if fetch is not None:
            await asyncio.shield(fetch)

    def _pick(self, kid: str | None, algorithm: str) -> PublicKey | None:
        fitting = [key for key in self._keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
        return fitting[0] if len(fitting) == 1 else None

    def _start_fetch(self) -> asyncio.Task[None] | None:
        if self._fetch is None and self._clock() - self._tried_at >= PAUSE:
            self._tried_at = self._clock()
            self._fetch = asyncio.create_task(self._refresh())
        return self._fetch

    async def _refresh(self) -> None:
        try:
            self._keys = parse_jwks(await self._load())
            self._read_at = self._clock()
        except Exception as error:
            # Whatever the other side did: the keys at hand go on, and the next try comes after PAUSE.
            log.warning("jwks_fetch_failed", reason=f"{type(error).__name__}: {error}", keys=len(self._keys))
        finally:
            self._fetch = None


def from_url(url: str) -> Callable[[], Awaitable[bytes]]:
    """Loads the document by HTTP. Redirects are not followed: the address set is the one trusted."""

    def fetch() -> bytes:
        return httpx.get(url, timeout=TIMEOUT).raise_for_status().content

    async def load() -> bytes:
        # Setting up TLS takes tens of milliseconds, which the event loop must not spend.
        return await asyncio.to_thread(fetch)

    return load


def from_file(path: Path) -> Callable[[], Awaitable[bytes]]:
    """Loads the document from a file, which may be replaced while the server runs."""

    async def load() -> bytes:
        return await asyncio.to_thread(path.read_bytes)

    return load
