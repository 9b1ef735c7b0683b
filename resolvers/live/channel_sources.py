"""Sources of channel events: the clock of a workspace for its channels, the user's own clock for other conversations.

Messages in private conversations and groups move the clock of each member. So their events are there already, and
nothing has to be done for them while nobody looks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple, Protocol

from resolvers.base.app import Confab
from resolvers.conversations.access import access_conversations, list_readable
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, kind_of, parse_thread, without_thread
from store.conversations.watchers import Watch
from store.messages.message import MessageKind
from store.sessions.fields import SyncReason
from subscriptions.delivery.receipts.receipt_notifier import LARGEST_GROUP
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.events.shared import ChannelEvent
from subscriptions.realtime.mailboxes import Mailbox, MailboxEvent, Position
from subscriptions.realtime.shared.audience import ChannelAccess
from subscriptions.realtime.shared.subscription import SharedSubscription


class MissedEvents(NamedTuple):
    """Missed events of one clock with their positions, and the conversations whose rev can be resumed."""

    items: Sequence[tuple[Position, ChannelEvent]]
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

    def may_show(self, event: ChannelEvent) -> bool:
        """Return whether the subscriber may see an event. Call it only with access to the conversation."""
        ...

    async def read_missed(self, revs: Mapping[ConversationId, int]) -> MissedEvents:
        """Return the missed events that the subscriber may see, after the earliest rev that can be resumed.

        Raises StoreError.
        """
        ...

    async def refresh(self) -> None:
        """Read accesses again after events were lost."""
        ...


class WorkspaceSource:
    """The clock of a workspace."""

    def __init__(
        self,
        app: Confab,
        user: UserId,
        workspace: str,
        subscription: SharedSubscription,
        parents: Mapping[ConversationId, MessageId],
    ) -> None:
        """Use the subscription's place in the audience. parents: the ids of the parent messages of threads."""
        self.start = subscription.start(workspace)
        self._parents = parents
        self._app = app
        self._user = user
        self._workspace = workspace
        self._audience = subscription.audience(workspace)
        self._accesses: dict[ConversationId, ChannelAccess] = {}
        """The first access to each channel."""
        self._first_shown: dict[ConversationId, int] = {}
        """The seq of the first message that was shown, of channels whose history the subscriber may not read."""

    def has_access(self, conversation: ConversationId) -> bool:
        """Judge under the present rights. The access to a thread is that to its parent message."""
        channel = without_thread(conversation)
        access = self._audience.find_access(self._user, channel)
        if access is None or not access.continues(self._accesses.setdefault(channel, access)):
            return False
        thread = parse_thread(conversation)
        if thread is None or access.history is None:
            return True
        return access.history.has_parent(thread.seq, self._parents.get(conversation))

    def may_show(self, event: ChannelEvent) -> bool:
        """Return whether the message is in the history, or is shown without one.

        An edit must not show a message that the subscriber may not read, and other events must not show anything of it.
        """
        message = event.message
        access = self._audience.find_access(self._user, without_thread(message.conversation))
        if access is None:
            return False
        if access.history is not None:
            thread = parse_thread(message.conversation)
            if thread is not None:
                return access.history.has_reply(thread.seq, self._parents.get(message.conversation), message)
            return access.history.has(message)
        if event.begins_message:
            self._first_shown.setdefault(message.conversation, message.seq)
            return True
        first = self._first_shown.get(message.conversation)
        return first is not None and message.seq >= first

    async def read_missed(self, revs: Mapping[ConversationId, int]) -> MissedEvents:
        """Read the workspace's log."""
        app = self._app
        readable = partial(list_readable, app.store, self._user)
        return MissedEvents(
            *await app.shared_events.replayer.read_channels(self._workspace, self.start, revs, readable)
        )

    async def refresh(self) -> None:
        """Do nothing: rights are kept up to date."""


def watched_of(conversations: Iterable[ConversationId]) -> list[ConversationId]:
    """Return the conversations of which some events go to watchers only."""
    return [name for name in conversations if kind_of(name) in (ConversationKind.GROUP, ConversationKind.THREAD)]


class UserSource:
    """The user's own clock: private conversations, groups, and threads in them."""

    def __init__(self, app: Confab, user: UserId, mailbox: Mailbox, conversations: Collection[ConversationId]) -> None:
        """Begin with access to some conversations."""
        self.start = mailbox.start
        self._app = app
        self._user = user
        self._mailbox = mailbox
        self._accessible = set(conversations)
        self._watched_since: dict[ConversationId, int] = {}
        """The tick from which on the user's log has all events, of watched conversations."""
        self._sizes: dict[ConversationId, int] = {}
        """The number of members of each group."""

    async def watch(self, clock: Position, begun: Mapping[ConversationId, Watch]) -> None:
        """Hold watches that have begun. clock: the user's clock after that. Raises StoreError."""
        self._watched_since = dict(await self._app.watches.hold(self._user, self._mailbox, clock, begun))

    def release(self) -> None:
        """Let watches end."""
        self._app.watches.release(self._mailbox, self._watched_since)

    def has_access(self, conversation: ConversationId) -> bool:
        """Return True until the membership ends."""
        return conversation in self._accessible

    def may_show(self, event: ChannelEvent) -> bool:
        """Return True: only those who may read a message have its events on their clock."""
        return True

    async def read_missed(self, revs: Mapping[ConversationId, int]) -> MissedEvents:
        """Read the user's log."""
        # The client may have a later position from another server, or one in the future.
        clock = self.start.tick
        if max(revs.values()) > clock:
            clock = self._find_clock()
        candidates = sorted({rev for rev in revs.values() if rev <= clock})
        items: list[MailboxEvent] = []
        first = tried = 0
        last = len(candidates)
        while first < last:
            # If a rev can be resumed, so can all later ones.
            found = await self._read_after(candidates[tried])
            if found is not None:
                items, last = found, tried
            else:
                first = tried + 1
            tried = (first + last) // 2
        if last == len(candidates):
            return MissedEvents((), frozenset())
        resumed = {name: rev for name, rev in revs.items() if candidates[last] <= rev <= clock}
        followed = await self._list_followed(resumed, items)
        shown = self._select(items, revs.keys())
        return MissedEvents(
            shown,
            frozenset(name for name, rev in resumed.items() if name in followed or self._has_all(name, rev, shown)),
        )

    async def _list_followed(
        self, revs: Mapping[ConversationId, int], items: Sequence[MailboxEvent]
    ) -> Set[ConversationId]:
        """Return the threads that the user has followed since a rev: all of their events are in the log."""
        threads = [name for name in revs if kind_of(name) is ConversationKind.THREAD]
        if not threads:
            return frozenset()
        changed = {
            session.conversation
            for at, event in items
            if isinstance(event, SessionChanged) and event.reason is SyncReason.MEMBERSHIP
            for session in event.sessions
            if at.tick > revs.get(session.conversation, 0)
        }
        sessions = await self._app.store.sessions.find_each(self._user, threads)
        return {each.conversation for each in sessions if each.follows and not each.hidden} - changed

    def _has_all(self, conversation: ConversationId, rev: int, items: Sequence[tuple[Position, ChannelEvent]]) -> bool:
        """Return whether the log has all events of a conversation after a rev, also those for watchers only.

        In a group that had few members all the time there were none. Each SYSTEM message since may be a departure.
        """
        if rev >= self._watched_since.get(conversation, 0):
            return True
        if kind_of(conversation) is not ConversationKind.GROUP:
            return False
        changes = [event.message for _, event in items if event.conversation == conversation and event.begins_message]
        departed = sum(max(1, len(m.mentions)) for m in changes if m.kind is MessageKind.SYSTEM)
        return self._sizes.get(conversation, LARGEST_GROUP) + departed <= LARGEST_GROUP

    async def _read_after(self, rev: int) -> list[MailboxEvent] | None:
        return await self._app.replayer.since(self._user, Position(self.start.epoch, rev))

    def _select(
        self, items: Sequence[MailboxEvent], conversations: Collection[ConversationId]
    ) -> list[tuple[Position, ChannelEvent]]:
        """Return the events of some conversations."""
        convert = self._app.shared_events.user_clock_events.convert
        found = [(item.position, convert(item.event, item.position)) for item in items]
        return [(at, event) for at, event in found if event is not None and event.conversation in conversations]

    def _find_clock(self) -> int:
        """Return the tick up to which this server has the user's events."""
        position = self._app.hub.find_clock(self._user)
        return max(self.start.tick, position.tick if position is not None else 0)

    async def start_over(self, clock: Position) -> None:
        """Watch again after events were lost: Redis may have lost the watches. clock: where the events go on."""
        begun = await self._app.watches.begin(self._user, sorted(self._watched_since))
        await self.watch(clock, begun)
        await self.refresh()

    async def refresh(self) -> None:
        """Read the memberships again."""
        names = sorted(self._accessible)
        accesses = await access_conversations(self._app, self._user, names)
        current = {
            name: access
            for name, access in zip(names, accesses, strict=True)
            if access is not None and access.is_current
        }
        self._accessible = set(current)
        self._sizes = {name: access.head.member_count for name, access in current.items()}

    def receive(self, event: Event) -> bool:
        """Note the ends of memberships. Returns whether there are any."""
        if not isinstance(event, SessionChanged):
            return False
        left = {s.conversation for s in event.sessions if s.frozen or s.dissolved}
        ended = {name for name in self._accessible if without_thread(name) in left}
        self._accessible -= ended
        return bool(ended)
