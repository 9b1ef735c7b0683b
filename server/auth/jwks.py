"""Public keys for checking tokens: a JWK set from a URL or a file, fetched again periodically."""

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

REFRESH_SECONDS = 300.0
"""Age at which the set is fetched again, in the background."""

MIN_FETCH_INTERVAL_SECONDS = 10.0
"""Minimum time between two fetches, also after failures and for unknown key ids."""

FETCH_TIMEOUT_SECONDS = 5.0

_ALGORITHMS = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Algorithms of each type of key (kty, crv). A key verifies one of them: its `alg`, or without `alg` the first."""

ALGORITHMS = frozenset(algorithm for algorithms in _ALGORITHMS.values() for algorithm in algorithms)
"""Algorithms of public keys that are accepted."""

_PUBLIC_MEMBERS = ("kty", "crv", "n", "e", "x", "y")


class JwksError(Exception):
    """Raised when a document is not a JWK set with a usable key."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key and its key id. Two are equal if key and key id are equal."""

    kid: str | None
    algorithm: str
    members: tuple[tuple[str, Any], ...]
    jwk: PyJWK = field(compare=False)


def parse_jwks(document: bytes) -> tuple[PublicKey, ...]:
    """Return the signing keys of a JWK set. Encryption, symmetric, weak and unknown keys are ignored.

    Raises JwksError if no key remains.
    """
    try:
        members = orjson.loads(document)["keys"]
        keys = tuple(key for member in members if (key := _public_key(member)) is not None)
    except (ValueError, KeyError, TypeError) as error:
        raise JwksError("not a JWK set") from error
    if not keys:
        raise JwksError("no signing key in the JWK set (RSA of 2048 bits, P-256, P-384, P-521, Ed25519)")
    return keys


def _public_key(member: Any) -> PublicKey | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    operations = member.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    kty, kid = str(member.get("kty")), member.get("kid")
    algorithms = _ALGORITHMS.get((kty, None if kty == "RSA" else str(member.get("crv"))), ())
    algorithm = member.get("alg", next(iter(algorithms), None))
    if algorithm not in algorithms:
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
    """Keys of one JWK set. Concurrent callers share one fetch.

    While the set cannot be fetched, the keys read last stay in force. `load` returns the document, or raises any error.
    """

    def __init__(self, load: Callable[[], Awaitable[bytes]], clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._keys: tuple[PublicKey, ...] = ()
        self._tried_at = float("-inf")
        self._read_at = float("-inf")
        self._fetch: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return the key that a token's header names; without a kid, the only key for the algorithm.

        An unknown kid causes another fetch, at most every MIN_FETCH_INTERVAL_SECONDS. Raises Unavailable if no set
        has been fetched yet.
        """
        if self._keys and self._clock() - self._read_at > REFRESH_SECONDS:
            self._start_fetch()
        key = self._pick(kid, algorithm)
        if key is None:
            fetch = self._start_fetch()
            if fetch is not None:
                await asyncio.shield(fetch)
                key = self._pick(kid, algorithm)
        if not self._keys:
            raise Unavailable("The keys for checking tokens cannot be fetched at the moment, please try again.")
        return key

    def contains(self, key: PublicKey) -> bool:
        """Return whether a key is in the set as last read."""
        return key in self._keys

    async def refresh(self) -> None:
        """Read a set that is in use again, unless that was tried less than MIN_FETCH_INTERVAL_SECONDS ago."""
        fetch = self._start_fetch() if self._keys else None
        if fetch is not None:
            await asyncio.shield(fetch)

    def _pick(self, kid: str | None, algorithm: str) -> PublicKey | None:
        matching = [key for key in self._keys if key.algorithm == algorithm and (kid is None or key.kid == kid)]
        return matching[0] if len(matching) == 1 else None

    def _start_fetch(self) -> asyncio.Task[None] | None:
        if self._fetch is None and self._clock() - self._tried_at >= MIN_FETCH_INTERVAL_SECONDS:
            self._tried_at = self._clock()
            self._fetch = asyncio.create_task(self._refresh())
        return self._fetch

    async def _refresh(self) -> None:
        try:
            self._keys = parse_jwks(await self._load())
            self._read_at = self._clock()
        except Exception as error:
            # The current keys stay in force. The next fetch is at least MIN_FETCH_INTERVAL_SECONDS later.
            log.warning("jwks_fetch_failed", reason=f"{type(error).__name__}: {error}", keys=len(self._keys))
        finally:
            self._fetch = None


def load_from_url(url: str) -> Callable[[], Awaitable[bytes]]:
    """Return a function that loads the document over HTTP.

    It does not follow redirects: only the given URL is trusted.
    """

    def fetch() -> bytes:
        return httpx.get(url, timeout=FETCH_TIMEOUT_SECONDS).raise_for_status().content

    async def load() -> bytes:
        # Setting up TLS takes tens of milliseconds and would block the event loop.
        return await asyncio.to_thread(fetch)

    return load


def load_from_file(path: Path) -> Callable[[], Awaitable[bytes]]:
    """Return a function that loads the document from a file. The file may be replaced while the server runs."""

    async def load() -> bytes:
        return await asyncio.to_thread(path.read_bytes)

    return load
