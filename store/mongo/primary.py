"""Notices when MongoDB has had no primary for some time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container

from pymongo.monitoring import (
    TopologyClosedEvent,
    TopologyDescriptionChangedEvent,
    TopologyListener,
    TopologyOpenedEvent,
)
from pymongo.topology_description import TopologyDescription


class PrimaryWatch(TopologyListener):
    """Measures how long a primary has been missing, compared with the time that an election may take.

    The driver reports its events up to 1.5 seconds late. They say for how long a primary was missing; whether there is
    one, and where, is read from the driver.
    """

    def __init__(self, grace_seconds: float, read_topology: Callable[[], TopologyDescription]) -> None:
        """Create a watch.

        Args:
            grace_seconds: The time that an election may take.
            read_topology: Returns what the driver knows at this moment.
        """
        self._grace_seconds = grace_seconds
        self._read_topology = read_topology
        self._missing_since: float | None = None
        """By `time.monotonic`. Infinity: the driver has not looked for a primary yet."""
        self.on_change: Callable[[Container[tuple[str, int | None]]], None] | None = None
        """Called with the addresses of the primary, or of all mongos, when there is one."""

    @property
    def is_lost(self) -> bool:
        """True if calls should fail at once.

        Read before each call, since the driver starts to look with the first one.
        """
        if self._missing_since is None:
            return False
        if self._missing_since == math.inf:
            self._missing_since = time.monotonic()
        if time.monotonic() - self._missing_since <= self._grace_seconds:
            return False
        return not self._read_topology().has_writable_server()

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Note that no primary is known yet."""
        self._missing_since = math.inf

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """Note that a primary was found or lost."""
        if event.new_description.has_writable_server():
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = time.monotonic()
        if self.on_change is None:
            return
        servers = self._read_topology().server_descriptions().items()
        if writable := {address for address, server in servers if server.is_writable}:
            self.on_change(writable)

    def closed(self, event: TopologyClosedEvent) -> None:
        """Do nothing."""
