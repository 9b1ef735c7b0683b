"""Sources of channel events: the clock of a workspace for its channels, the user's own clock for other conversations.

Messages in private conversations and groups move the clock of each member. So their events are there already, and
nothing has to be done for them while nobody looks.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple, Protocol

from resolvers.base.app import Confab
from resolvers.conversations.access import access_conversations, list_readable
from store.base.ids import ConversationId, UserId
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.events.shared import ChannelMessage, MessageChange
from subscriptions.realtime.mailboxes import Position
from subscriptions.realtime.shared.audience import ChannelAccess
from subscriptions.realtime.shared.subscription import SharedSubscription


class MissedMessages(NamedTuple):
    """The messages after a rev, with their positions, and the newest known tick of the clock."""

    items: list[tuple[Position, ChannelMessage]]
    newest: int


class ChannelSource(Protocol):
    """One clock, and the subscriber's access to the conversations whose events it has."""

    @property
    def start(self) -> Position:
        """The position after which all events are live."""
        ...

    def has_access(self, conversation: ConversationId) -> bool:
        """Return whether the subscriber could see a conversation from the beginning until now."""
        ...

    def may_show(self, event: ChannelMessage) -> bool:
        """Return whether the subscriber may see a message's event. Call it only with access to the conversation."""
        ...

    async def read_missed(self, rev: int, conversations: Collection[ConversationId]) -> MissedMessages | None:
        """Return the messages that the subscriber may read, after a rev; None if it cannot be resumed."""
        ...

    async def find_clock(self) -> int:
        """Return the clock at present, or an earlier tick that is not before `start`."""
        ...

    async def refresh(self) -> None:
        """Read accesses again after events were lost."""
        ...


class WorkspaceSource:
    """The clock of a workspace."""

    def __init__(self, app: Confab, user: UserId, workspace: str, subscription: SharedSubscription) -> None:
        """Use the subscription's place in the audience."""
        self.start = subscription.start(workspace)
        self._app = app
        self._user = user
        self._workspace = workspace
        self._audience = subscription.audience(workspace)
        self._accesses: dict[ConversationId, ChannelAccess] = {}
        """The first access to each channel."""
        self._first_shown: dict[ConversationId, int] = {}
        """The seq of the first message that was shown, of channels whose history the subscriber may not read."""

    def has_access(self, conversation: ConversationId) -> bool:
        """Judge under the present rights."""
        access = self._audience.find_access(self._user, conversation)
        return access is not None and access.continues(self._accesses.setdefault(conversation, access))

    def may_show(self, event: ChannelMessage) -> bool:
        """Return whether the message is in the history, or is shown without one.

        An edit must not show a message that the subscriber may not read.
        """
        message = event.message
        access = self._audience.find_access(self._user, message.conversation)
        if access is None:
            return False
        if access.history is not None:
            return access.history.has(message)
        if event.change is MessageChange.CREATED:
            self._first_shown.setdefault(message.conversation, message.seq)
            return True
        first = self._first_shown.get(message.conversation)
        return first is not None and message.seq >= first

    async def read_missed(self, rev: int, conversations: Collection[ConversationId]) -> MissedMessages | None:
        """Read the workspace's log."""
        app = self._app
        replay = await app.shared_events.replayer.read(
            self._workspace,
            rev,
            epoch=self.start.epoch,
            conversations=conversations,
            list_readable=partial(list_readable, app.store, self._user),
        )
        if replay is None:
            return None
        items = [(item.position, item.event) for item in replay.events if isinstance(item.event, ChannelMessage)]
        return MissedMessages(items, items[-1][0].tick if items else rev)

    async def find_clock(self) -> int:
        """Read the clock."""
        (reading,) = await self._app.store.clocks.read([self._workspace])
        return reading.tick if reading.epoch == self.start.epoch else self.start.tick

    async def refresh(self) -> None:
        """Do nothing: rights are kept up to date."""


class UserSource:
    """The user's own clock: private conversations and groups."""

    def __init__(self, app: Confab, user: UserId, start: Position, conversations: Collection[ConversationId]) -> None:
        """Begin with access to some conversations."""
        self.start = start
        self._app = app
        self._user = user
        self._accessible = set(conversations)

    def has_access(self, conversation: ConversationId) -> bool:
        """Return True until the membership ends."""
        return conversation in self._accessible

    def may_show(self, event: ChannelMessage) -> bool:
        """Return True: only those who may read a message have its events on their clock."""
        return True

    async def read_missed(self, rev: int, conversations: Collection[ConversationId]) -> MissedMessages | None:
        """Read the user's log."""
        replay = await self._app.replayer.since(self._user, Position(self.start.epoch, rev))
        if replay is None:
            return None
        found = [
            (item.position, self._app.shared_events.user_clock_messages.convert(item.event, item.position))
            for item in replay
        ]
        items = [(at, event) for at, event in found if event is not None and event.conversation in conversations]
        return MissedMessages(items, max([rev, *(item.position.tick for item in replay)]))

    async def find_clock(self) -> int:
        """Return the tick up to which this server has the user's events."""
        position = self._app.hub.find_clock(self._user)
        return max(self.start.tick, position.tick if position is not None else 0)

    async def refresh(self) -> None:
        """Read the memberships again."""
        names = sorted(self._accessible)
        accesses = await access_conversations(self._app, self._user, names)
        pairs = zip(names, accesses, strict=True)
        self._accessible = {name for name, access in pairs if access is not None and access.is_current}

    def receive(self, event: Event) -> bool:
        """Note the ends of memberships. Returns whether there are any."""
        if not isinstance(event, SessionChanged):
            return False
        ended = {s.conversation for s in event.sessions if s.frozen or s.dissolved} & self._accessible
        self._accessible -= ended
        return bool(ended)
