"""The users that one subscription shows, and the events that it gets about each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from store.base.ids import UserId
from store.presence.presence_record import PresenceRecord
from store.presence.shown_presence import ShownPresence, is_same
from store.users.user import User
from subscriptions.realtime.shared.loop_slices import LoopSlices

if TYPE_CHECKING:
    from subscriptions.presence.presence_hub import PresenceHub

EVENT_SECONDS = 5.0
"""Least time between two events about a user in one subscription. The last change always has an event."""


@dataclass(frozen=True, slots=True, eq=False)
class PresenceState:
    """The presence of a user as others see it from a time on: one object for all listeners, so it is rendered once.

    Attributes:
        shown: What others see.
        at_ms: When this was derived.
        profile_changes: Number of changes of the user's name and picture that this process has seen.
    """

    shown: ShownPresence
    at_ms: int
    profile_changes: int = 0

    def is_like(self, other: PresenceState) -> bool:
        """Return whether there is no visible difference."""
        return self is other or (self.profile_changes == other.profile_changes and is_same(self.shown, other.shown))


Listener = Callable[[PresenceState], None]
"""Takes the new state of a user. It must not block."""


class _Given(NamedTuple):
    """The last state that a subscription got, and the event loop's time at which it got it."""

    state: PresenceState
    at: float


class WatchedUser:
    """A user that subscriptions of this process show."""

    __slots__ = (
        "_given",
        "_timer",
        "changes_at_ms",
        "has_all_devices",
        "is_due",
        "profile",
        "profile_changes",
        "record",
        "state",
        "user",
    )

    def __init__(self, user: UserId) -> None:
        """Begin without a record and without listeners."""
        self.user = user
        self.record: PresenceRecord | None = None
        """None: it was not read yet."""
        self.has_all_devices = True
        """False if the record came from another server while the user was INVISIBLE."""
        self.profile = User(user, None, None, is_bot=False)
        self.profile_changes = 0
        self.state: PresenceState | None = None
        self.changes_at_ms: int | None = None
        """The time at which the state changes by itself."""
        self.is_due = False
        """True while the user waits to be derived."""
        self._given: dict[PresenceWatch, _Given | None] = {}
        """The listening subscriptions; None for one that has not begun."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def has_listeners(self) -> bool:
        """True if a subscription shows the user."""
        return bool(self._given)

    def join(self, watch: PresenceWatch) -> None:
        """Keep the user watched for a subscription, which gets no events before `begin`."""
        self._given.setdefault(watch, None)

    def begin(self, watch: PresenceWatch, now_ms: int) -> PresenceState:
        """Return the present state, and let later changes be events of a subscription that has joined."""
        state = self._state_for(watch, now_ms)
        self._given[watch] = _Given(state, asyncio.get_running_loop().time())
        return state

    def _state_for(self, watch: PresenceWatch, now_ms: int) -> PresenceState:
        assert self.state is not None
        hidden = watch.hidden.get(self.user)
        return self.state if hidden is None else PresenceState(hidden, now_ms, self.state.profile_changes)

    def leave(self, watch: PresenceWatch) -> PresenceState | None:
        """Remove a subscription. Return the last state that it got. Idempotent."""
        given = self._given.pop(watch, None)
        if not self._given and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return given.state if given is not None else None

    async def announce(
        self, interval: float, now_ms: int, slices: LoopSlices, call_again: Callable[[WatchedUser], None]
    ) -> None:
        """Give the present state to the subscriptions that have seen another one, `interval` seconds ago or earlier.

        `call_again` is called when the next one of the others may get it.
        """
        loop = asyncio.get_running_loop()
        given_now: _Given | None = None
        next_at: float | None = None
        for watch in list(self._given):
            await slices.next()
            # It may have left, and the state may have changed meanwhile.
            given = self._given.get(watch)
            if given is None or self.state is None:
                continue
            state = self._state_for(watch, now_ms)
            if given.state.is_like(state):
                continue
            now = loop.time()
            if now < given.at + interval:
                next_at = min(given.at + interval, next_at or given.at + interval)
                continue
            if given_now is None or given_now.state is not state:
                given_now = _Given(state, now)
            self._given[watch] = given_now
            watch.listen(state)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_at is not None and self._given:
            self._timer = loop.call_at(next_at, call_again, self)


class PresenceWatch:
    """The users that one subscription shows. The same user counts once."""

    __slots__ = ("_hub", "_users", "hidden", "listen")

    def __init__(self, hub: PresenceHub, listen: Listener) -> None:
        """Begin without users. `listen` gets the later changes of what others see of them, and of their names."""
        self.listen = listen
        self.hidden: Mapping[UserId, ShownPresence] = {}
        """The presence to show of users who have blocked the subscriber."""
        self._hub = hub
        self._users: dict[UserId, WatchedUser] = {}

    async def add(self, users: Collection[UserId]) -> Mapping[UserId, PresenceState]:
        """Watch up to 200 more users, and return the present state of each. No later change is missed.

        One round trip to Redis and MongoDB each, shared with others; none for users that are watched on this process.
        Raises StoreError: none of them is watched.
        """
        joined = self._hub.join(self, users)
        try:
            await self._hub.load(joined)
        except BaseException:
            self._hub.leave(self, joined)
            raise
        self._users |= {each.user: each for each in joined}
        return {each.user: self._hub.begin(self, each) for each in joined}

    def hide(self, hidden: Mapping[UserId, ShownPresence]) -> None:
        """Show only this of some users from now on, and the others as they are. The changes become events."""
        changed = [user for user in hidden.keys() ^ self.hidden.keys() if user in self._users]
        self.hidden = hidden
        self._hub.users.derive_soon(changed)

    def remove(self, users: Collection[UserId]) -> Mapping[UserId, PresenceState]:
        """Stop watching users. Return the last state of each that was returned by `add` or given to the listener."""
        removed = [self._users.pop(user) for user in users if user in self._users]
        return self._hub.leave(self, removed)

    def close(self) -> None:
        """Stop watching all users. Idempotent."""
        self.remove(list(self._users))
