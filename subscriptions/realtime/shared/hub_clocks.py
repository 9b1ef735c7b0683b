"""Shared clocks, as a hub sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

from store.clocks.shared_clocks import SharedClocks
from subscriptions.realtime.hub import RoutedClock
from subscriptions.realtime.mailboxes import Position


class HubClocks:
    """The clocks of a hub of shared clocks. `refresh` reads rights until they are the present ones."""

    def __init__(self, clocks: SharedClocks, refresh: Callable[[str], Awaitable[None]]) -> None:
        self._clocks = clocks
        self._refresh = refresh

    async def attach(self, owner: str, server: str, until_ms: int) -> Position:
        """Store a route, and return the clock.

        With a route, this server is asked about changes of rights. Earlier ones are found here.
        """
        position = Position(*await self._clocks.attach(owner, server, until_ms))
        await self._refresh(owner)
        return position

    async def read_positions(self, owners: Sequence[str], server: str) -> list[RoutedClock | None]:
        """Return the clocks."""
        found = await self._clocks.read_positions(owners, server)
        return [
            RoutedClock(Position(live.epoch, live.clock), live.route_until) if live is not None else None
            for live in found
        ]

    async def detach(self, owners: Collection[str], server: str) -> None:
        """Remove the routes to a server."""
        await self._clocks.detach(owners, server)
