"""The users whose presence this process shows, and who listens to it (ADR 80)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from store.base.ids import UserId
from store.presence.presence_store import ChangedPresence
from store.presence.shown_presence import ShownPresence

WATCH_MS = 3_600_000
"""Time for which a watch of a user is stored. It is renewed every half of it."""

PUBLISH_SECONDS = 1.0
"""Least time between two frames about a user from one server. The last change is always sent."""

Listener = Callable[[ShownPresence], None]
"""Takes the new presence of a user. It must not block."""


class PresenceWatch:
    """The users that one subscription shows. `close` ends it."""

    @property
    def shown(self) -> Mapping[UserId, ShownPresence]:
        """The present state of each user."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop listening. Idempotent."""
        raise NotImplementedError


class PresenceHub:
    """Derives what others see, at the moment when it changes, for all users that a connection of this process shows."""

    async def read(self, users: Collection[UserId]) -> dict[UserId, ShownPresence]:
        """Return what others see of up to 200 users: one round trip to Redis, none for users that are watched here.

        Raises StoreError.
        """
        raise NotImplementedError

    async def watch(self, users: Collection[UserId], listen: Listener) -> PresenceWatch:
        """Call `listen` with each later change of what others see of up to 200 users. Raises StoreError.

        It is also called when a name or a picture of a user has changed.
        """
        raise NotImplementedError

    def publish(self, changes: Collection[ChangedPresence]) -> None:
        """Send changed records to the servers that show the users. Only what changes what others see is sent."""
        raise NotImplementedError
