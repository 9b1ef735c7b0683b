"""Addresses on the web: their form, and the IP addresses that a connection may go to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from resolvers.web_requests.errors import AddressRefused, FetchFailed
from resolvers.web_requests.public_addresses import LOOPBACK, Network, is_loopback, is_public
from store.previews.embed import MAX_URL

DEFAULT_PORTS = {"http": 80, "https": 443}
PUBLIC_PORTS = frozenset(DEFAULT_PORTS.values())

_MAX_ADDRESSES = 4
"""Addresses of a host that are tried. All are judged."""

_RESOLVER_THREADS = 8

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host as text. Raises OSError."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An http or https address, as it is requested."""

    url: httpx.URL
    host: str
    """In lower case; international names in their ASCII form."""
    port: int

    @property
    def is_encrypted(self) -> bool:
        """True for https."""
        return self.url.scheme == "https"


class SystemResolver:
    """The resolver of the operating system, in threads of its own: names that never answer delay nothing else."""

    def __init__(self, threads: int = _RESOLVER_THREADS) -> None:
        """Start no thread yet. threads: hosts that are resolved at the same time; others wait."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="names")
        self._running: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the IP addresses of a host. Raises OSError.

        Calls for the same host at the same time take one thread: it is taken for as long as the system tries, which
        may be longer than callers wait.
        """
        running = self._running.get((host, port))
        if running is None:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._threads, _resolve, host, port)
            self._running[host, port] = running
            running.add_done_callback(lambda ended: self._end((host, port), ended))
        return await asyncio.shield(running)

    def _end(self, key: tuple[str, int], ended: asyncio.Future[list[str]]) -> None:
        del self._running[key]
        if not ended.cancelled():
            # Marks it as retrieved: perhaps nobody waits for it any more.
            ended.exception()

    def close(self) -> None:
        """Start no more threads. Does not wait for names that are being resolved."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _resolve(host: str, port: int) -> list[str]:
    return [str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Rules for addresses that may be fetched: public ones, and those that the operator allows.

    Attributes:
        allowed: Networks that are not public and may be fetched from.
        ports: Ports that may be connected to; None: any.
        needs_https: http addresses are refused, except those on loopback if it is allowed.
    """

    allowed: Sequence[Network] = ()
    ports: frozenset[int] | None = PUBLIC_PORTS
    needs_https: bool = False

    def parse(self, url: str) -> WebAddress:
        """Return an address that may be resolved. Raises AddressRefused."""
        try:
            parsed = httpx.URL(url)
            host = parsed.raw_host.decode("ascii").lower()
        except (httpx.InvalidURL, ValueError) as error:
            raise AddressRefused("not an address") from error
        if len(str(parsed)) > 2 * MAX_URL:
            raise AddressRefused("too long")
        if parsed.scheme not in DEFAULT_PORTS or not host:
            raise AddressRefused("neither http nor https")
        if self.needs_https and parsed.scheme != "https" and not self._is_allowed_loopback(host.strip("[]")):
            raise AddressRefused("not https")
        if parsed.userinfo:
            raise AddressRefused("contains a user name")
        port = parsed.port or DEFAULT_PORTS[parsed.scheme]
        if self.ports is not None and port not in self.ports:
            raise AddressRefused(f"port {port}")
        return WebAddress(parsed.copy_with(fragment=None), host.strip("[]"), port)

    def _is_allowed_loopback(self, host: str) -> bool:
        return self.allowed == LOOPBACK and (host == "localhost" or is_loopback(host))

    async def judge(self, host: str, port: int, resolve: Resolve) -> Sequence[str]:
        """Resolve a host once, and return the addresses to connect to.

        Raises AddressRefused unless all of them may be connected to, and FetchFailed if there are none.
        """
        try:
            found = await resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise FetchFailed(f"name not resolved: {error}") from error
        if not found:
            raise FetchFailed("name without addresses")
        if not all(is_public(text, self.allowed) for text in found):
            raise AddressRefused("not a public address")
        return list(dict.fromkeys(found))[:_MAX_ADDRESSES]


def outgoing_rules(*, allow_loopback: bool) -> AddressRules:
    """Return the rules for webhooks and Web Push: public https addresses. allow_loopback: also loopback, with http."""
    return AddressRules(LOOPBACK if allow_loopback else (), ports=None, needs_https=True)
