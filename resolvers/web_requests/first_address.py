"""Connecting to one of several addresses of a host that were judged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpcore

_CONNECT_SECONDS = 2.0
"""Time limit for an address that is not the last one."""


async def connect_to_first(
    network: httpcore.AsyncNetworkBackend, addresses: Sequence[str], port: int
) -> httpcore.AsyncNetworkStream:
    """Return a connection to the first address that answers. Raises ConnectError, ConnectTimeout."""
    *others, last = addresses
    for address in others:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await network.connect_tcp(address, port)
        except (httpcore.ConnectError, TimeoutError):
            continue
    return await network.connect_tcp(last, port)
