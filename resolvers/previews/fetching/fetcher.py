"""HTTP requests to addresses that users name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from resolvers.previews.fetching.decoding import ACCEPTED, decode_body, refuse_tiny_chunks
from resolvers.web_requests.addresses import AddressRules, Resolve, WebAddress
from resolvers.web_requests.errors import FetchFailed

if TYPE_CHECKING:
    import httpcore

    from resolvers.previews.fetching.connections import ReceivedBytes

MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)

WaitForTurn = Callable[[str], Awaitable[None]]
"""Waits until a host may be asked. Raises StoreError if that takes too long."""


@dataclass(slots=True)
class FetchBudget:
    """Limits of one fetch: with redirects, and with further requests that belong to it.

    Attributes:
        max_bytes: As received, and decoded.
        seconds: Without the time in which it waits for its turn.
        hosts: Hosts that gave it a turn.
    """

    max_bytes: int
    seconds: float
    hosts: set[str] = field(default_factory=set)
    received: ReceivedBytes | None = None


@dataclass(frozen=True, slots=True)
class WebResponse:
    """An answer with status 200.

    Attributes:
        url: Its address, after redirects.
        content_type: In lower case, without parameters; "" if there is none.
        charset: Encoding that the header names, or None.
        pieces: The decoded body. Raises FetchFailed; TooLarge after `max_bytes`.
    """

    url: str
    content_type: str
    charset: str | None
    pieces: AsyncIterator[bytes]


class Fetcher:
    """Sends GET requests to public addresses. Each connection serves one request, to an address that was judged.

    There are no cookies, no credentials, and no proxies. Certificates are verified against the name of the host.
    """

    def __init__(
        self,
        rules: AddressRules,
        resolve: Resolve,
        wait_for_turn: WaitForTurn,
        user_agent: str,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Create a fetcher. `ssl_context`: None for the certificate authorities of the system and of certifi."""
        self._rules = rules
        self._resolve = resolve
        self._wait_for_turn = wait_for_turn
        self._user_agent = user_agent
        self._given_ssl_context = ssl_context

    @asynccontextmanager
    async def get(self, url: str, budget: FetchBudget, accept: str) -> AsyncIterator[WebResponse]:
        """Request an address, follow at most three redirects, and return the answer while the block runs.

        Raises FetchFailed, also within the block, and StoreError if a host has no time for this request. What the
        caller reads within the block takes from the time of the budget.
        """
        from resolvers.previews.fetching.connections import ReceivedBytes

        if budget.received is None:
            budget.received = ReceivedBytes(budget.max_bytes)
        loop = asyncio.get_running_loop()
        for _ in range(MAX_REDIRECTS + 1):
            address = self._rules.parse(url)
            if address.host not in budget.hosts:
                await self._wait_for_turn(address.host)
                budget.hosts.add(address.host)
            began = loop.time()
            try:
                async with (
                    _time_limit(budget.seconds),
                    self._request(address, budget.received, accept) as response,
                ):
                    location = _header(response, b"location") if response.status in _REDIRECTS else ""
                    if not location:
                        yield self._answer(address, response, budget.max_bytes)
                        return
            finally:
                budget.seconds -= loop.time() - began
            url = _join(address, location)
        raise FetchFailed("too many redirects")

    @asynccontextmanager
    async def _request(
        self, address: WebAddress, received: ReceivedBytes, accept: str
    ) -> AsyncIterator[httpcore.Response]:
        import httpcore

        from resolvers.previews.fetching.connections import PinnedNetwork

        judged = await self._rules.judge(address.host, address.port, self._resolve)
        received.begin_head()
        target = httpcore.URL(
            scheme=address.url.raw_scheme, host=address.host.encode(), port=address.port, target=address.url.raw_path
        )
        headers = {
            "Host": address.url.netloc.decode(),
            "User-Agent": self._user_agent,
            "Accept": accept,
            "Accept-Encoding": ACCEPTED,
            "Connection": "close",
        }
        connection = httpcore.AsyncHTTPConnection(
            target.origin,
            ssl_context=self._ssl_context if address.is_encrypted else None,
            network_backend=PinnedNetwork(judged, received),
        )
        try:
            async with connection:
                response = await connection.handle_async_request(
                    httpcore.Request("GET", target, headers=list(headers.items()))
                )
                received.begin_body()
                yield response
        except (httpcore.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException, ssl.SSLError) as error:
            raise FetchFailed(f"{type(error).__name__}: {error}") from error

    def _answer(self, address: WebAddress, response: httpcore.Response, max_bytes: int) -> WebResponse:
        if response.status != 200:
            raise FetchFailed(f"status {response.status}")
        from email.message import Message

        kind = Message()
        kind["Content-Type"] = _header(response, b"content-type")
        pieces = decode_body(
            refuse_tiny_chunks(response.aiter_stream()), _header(response, b"content-encoding"), max_bytes
        )
        return WebResponse(
            str(address.url),
            kind.get_content_type() if kind["Content-Type"] else "",
            kind.get_content_charset(),
            pieces,
        )

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        if self._given_ssl_context is not None:
            return self._given_ssl_context
        import certifi

        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())
        return context


@asynccontextmanager
async def _time_limit(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            yield
    except TimeoutError as error:
        raise FetchFailed("the time is over") from error


def _header(response: httpcore.Response, name: bytes) -> str:
    """Return the first value of a header; "" if there is none."""
    return next((value.decode("latin-1") for key, value in response.headers if key.lower() == name), "")


def _join(address: WebAddress, location: str) -> str:
    """Return the address that a redirect leads to."""
    import httpx

    # Headers are bytes. Servers that do not escape an address send UTF-8.
    location = location.encode("latin-1").decode("utf-8", "replace").strip()
    try:
        return str(address.url.join(location))
    except (httpx.InvalidURL, ValueError) as error:
        raise FetchFailed("redirect to something that is no address") from error
