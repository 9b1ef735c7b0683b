"""Sources of channel events: the clock of a workspace for its channels, the user's own clock for other conversations.

Messages in private conversations and groups move the clock of each member. So their events are there already, and
nothing has to be done for them while nobody looks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    """Missed messages of one clock with their positions, and the conversations whose rev can be resumed."""

    items: Sequence[tuple[Position, ChannelMessage]]
    resumed: frozenset[ConversationId]


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

    async def read_missed(self, revs: Mapping[ConversationId, int]) -> MissedMessages:
        """Return the missed messages that the subscriber may read, after the earliest rev that can be resumed.

        Raises StoreError.
        """
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

    async def read_missed(self, revs: Mapping[ConversationId, int]) -> MissedMessages:
        """Read the workspace's log."""
        app = self._app
        readable = partial(list_readable, app.store, self._user)
        return MissedMessages(
            *await app.shared_events.replayer.read_channels(self._workspace, self.start, revs, readable)
        )

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

    async def read_missed(self, revs: Mapping[ConversationId, int]) -> MissedMessages:
        """Read the user's log."""
        # The client may have a later position from another server, or one in the future.
        clock = self.start.tick
        if max(revs.values()) > clock:
            clock = self._find_clock()
        candidates = sorted({rev for rev in revs.values() if rev <= clock})
        items: list[tuple[Position, ChannelMessage]] = []
        first = tried = 0
        last = len(candidates)
        while first < last:
            # If a rev can be resumed, so can all later ones.
            found = await self._read_after(candidates[tried], revs.keys())
            if found is not None:
                items, last = found, tried
            else:
                first = tried + 1
            tried = (first + last) // 2
        if last == len(candidates):
            return MissedMessages((), frozenset())
        return MissedMessages(items, frozenset(name for name, rev in revs.items() if candidates[last] <= rev <= clock))

    async def _read_after(
        self, rev: int, conversations: Collection[ConversationId]
    ) -> list[tuple[Position, ChannelMessage]] | None:
        replay = await self._app.replayer.since(self._user, Position(self.start.epoch, rev))
        if replay is None:
            return None
        found = [
            (item.position, self._app.shared_events.user_clock_messages.convert(item.event, item.position))
            for item in replay
        ]
        return [(at, event) for at, event in found if event is not None and event.conversation in conversations]

    def _find_clock(self) -> int:
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
