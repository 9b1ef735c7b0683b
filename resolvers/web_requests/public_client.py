"""An HTTP client that keeps connections open, and connects to public addresses only.

Each new connection resolves its host, judges all addresses of it, and connects to one of those that were judged. So a
name that resolves to another address later (DNS rebinding) reaches nothing either.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from http.cookiejar import DefaultCookiePolicy

import certifi
import httpcore
import httpx

from resolvers.web_requests.addresses import AddressRules, Resolve
from resolvers.web_requests.errors import AddressRefused, FetchFailed
from resolvers.web_requests.first_address import connect_to_first


class PublicNetwork(httpcore.AsyncNetworkBackend):
    """Connects to hosts under rules for addresses. Raises httpcore.ConnectError for a refused one."""

    def __init__(self, rules: AddressRules, resolve: Resolve) -> None:
        self._rules = rules
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers. Raises ConnectError, ConnectTimeout."""
        try:
            async with asyncio.timeout(timeout):
                judged = await self._rules.judge(host, port, self._resolve)
                return await connect_to_first(self._network, judged, port)
        except FetchFailed as error:
            refused = isinstance(error, AddressRefused)
            raise httpcore.ConnectError(f"refused: {error}" if refused else str(error)) from error
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("no connection in time") from error


class PublicTransport(httpx.AsyncHTTPTransport):
    """The transport of httpx over a `PublicNetwork`."""

    def __init__(
        self,
        rules: AddressRules,
        resolve: Resolve,
        *,
        http2: bool = False,
        max_connections: int = 100,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Create a transport. ssl_context: None for the certificate authorities of the system and of certifi."""
        # The constructor of the base class makes a pool of its own, and takes no network.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or _default_ssl_context(),
            max_connections=max_connections,
            max_keepalive_connections=max_connections,
            keepalive_expiry=60.0,
            http2=http2,
            network_backend=PublicNetwork(rules, resolve),
        )


def open_public_client(transport: PublicTransport, *, user_agent: str, seconds: float) -> httpx.AsyncClient:
    """Return a client that follows no redirects, keeps no cookies and uses no proxy.

    Args:
        transport: Closed together with the client.
        user_agent: Header of each request.
        seconds: Time limit for connecting, for sending, and for each read.
    """
    headers = {"User-Agent": user_agent}
    client = httpx.AsyncClient(
        transport=transport, headers=headers, timeout=seconds, follow_redirects=False, trust_env=False
    )
    # Addresses of different users may have the same host.
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
    return client


def _default_ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
