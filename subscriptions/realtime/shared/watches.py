"""The watchers of conversations among the subscribers of this process.

In groups and private conversations, events come from the user's own clock. Some go to those who look at the
conversation only: reactions in groups of more than 200 members, and the events of a thread that the user does not
follow. A subscription registers its user as a watcher before it reads the user's clock, so that it gets all of them.
A query that asks for the `rev` of a thread does the same, so that a subscription can go on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.conversations.watchers import Watch, WatcherStore
from subscriptions.realtime.mailboxes import Mailbox, Position
from subscriptions.realtime.user_hub import UserHub

RENEW_SECONDS = 60.0
"""Interval at which watches are renewed."""


class Watches:
    """Registers watchers, and renews their watches as long as their subscription exists."""

    def __init__(self, watchers: WatcherStore, hub: UserHub) -> None:
        self._watchers = watchers
        self._hub = hub
        self._tokens: dict[ConversationId, dict[Mailbox, tuple[UserId, str]]] = {}
        """For each conversation the subscriptions that look at it, with their user and the token of their watch."""

    async def begin(self, user: UserId, conversations: Sequence[ConversationId]) -> Mapping[ConversationId, Watch]:
        """Make a user a watcher of conversations. Read the user's clock after that. Raises StoreError."""
        return await self._watchers.watch(user, conversations)

    async def hold(
        self, user: UserId, mailbox: Mailbox, clock: Position, watches: Mapping[ConversationId, Watch]
    ) -> Mapping[ConversationId, int]:
        """Hold watches that have begun, until `release`. Raises StoreError.

        Args:
            user: The user.
            mailbox: The mailbox of the subscription. If a watch gets lost, its subscription starts over.
            clock: The user's clock at a moment after `begin`.
            watches: The answer of `begin`.

        Returns:
            For each conversation the tick from which on the user has all of its events.
        """
        watches = await self._note_clock(user, clock, watches)
        for name, watch in watches.items():
            self._tokens.setdefault(name, {})[mailbox] = user, watch.token
        return _ticks(clock, watches)

    async def note_clock(
        self, user: UserId, clock: Position, watches: Mapping[ConversationId, Watch]
    ) -> Mapping[ConversationId, int]:
        """Note the user's clock for watches that have begun. They last some minutes. Raises StoreError.

        Returns:
            The same as `hold`.
        """
        return _ticks(clock, await self._note_clock(user, clock, watches))

    async def _note_clock(
        self, user: UserId, clock: Position, watches: Mapping[ConversationId, Watch]
    ) -> Mapping[ConversationId, Watch]:
        unknown = {name: watch for name, watch in watches.items() if watch.epoch != clock.epoch}
        if not unknown:
            return watches
        earlier = {name: Watch(watch.token, clock.epoch, clock.tick) for name, watch in unknown.items()}
        noted = {**watches, **await self._watchers.watch(user, list(unknown), earlier)}
        if any(noted[name].token != watch.token for name, watch in unknown.items()):
            raise Unreachable("Redis has lost watchers meanwhile")
        return noted

    def release(self, mailbox: Mailbox, conversations: Collection[ConversationId]) -> None:
        """End the renewal of watches. They last some minutes longer, so that clients can resume. Idempotent."""
        for name in conversations:
            held = self._tokens.get(name, {})
            held.pop(mailbox, None)
            if not held:
                self._tokens.pop(name, None)

    async def renew(self) -> None:
        """Renew all watches. Subscriptions whose watch was lost start over. Raises StoreError."""
        users = {name: {user for user, _ in held.values()} for name, held in self._tokens.items()}
        for name, renewed in (await self._watchers.renew(users)).items():
            for mailbox, (user, token) in list(self._tokens.get(name, {}).items()):
                if user in users[name] and (token != renewed.token or user in renewed.lost):
                    mailbox.drop(self._hub.find_position(mailbox) or mailbox.start)


def _ticks(clock: Position, watches: Mapping[ConversationId, Watch]) -> Mapping[ConversationId, int]:
    return {name: min(watch.tick, clock.tick) for name, watch in watches.items()}
