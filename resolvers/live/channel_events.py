"""The events of channels that a user looks at: missed ones, ChannelCaughtUp for each, then live ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from resolvers.base.app import Confab
from resolvers.base.errors import NotFound
from resolvers.conversations.access import access_conversations
from resolvers.live.channel_sources import (
    ChannelSource,
    UserSource,
    WorkspaceSource,
    watched_of,
)
from resolvers.live.live_stream import LiveEvent, LivePayload, LiveStream, Parts, PayloadBatch, is_after
from resolvers.live.newest_states import NewestStates
from resolvers.live.patient_reads import read_patiently
from resolvers.live.shared_positions import SharedPosition, check_positions
from store.base.ids import ConversationId, UserId, parse_thread
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from subscriptions.realtime.events.base import EphemeralEvent, Event
from subscriptions.realtime.events.reactions import ChannelReactions
from subscriptions.realtime.events.shared import ChannelEvent, WorkspaceUpdate
from subscriptions.realtime.mailboxes import Lagged, Mailbox, Position, QueueBudget
from subscriptions.realtime.shared.subscription import SharedSubscription

MAX_CHANNELS = 20
MAX_CHANNELS_OF_BOTS = 1_000
_JUDGED_AT_ONCE = 200
"""Conversations to which access is read in one step, so that a bot does not hold up the process."""


@dataclass(frozen=True, slots=True)
class AccessEnded:
    """The subscriber gets nothing more of a conversation."""

    conversation: ConversationId


@dataclass(frozen=True, slots=True)
class ChannelCaughtUp:
    """The end of the missed events of a conversation. reset: the client has to fetch the newest page again."""

    conversation: ConversationId
    rev: int
    reset: bool


@lru_cache(maxsize=1_000)
def _access_ended(conversation: ConversationId) -> AccessEnded:
    """Return the event, the same object for all subscribers."""
    return AccessEnded(conversation)


async def channel_events(
    app: Confab, user: UserId, positions: Sequence[SharedPosition], budget: QueueBudget
) -> LiveStream:
    """Return the events of conversations after a position in each. No event after the return is missed.

    Raises InvalidInput, NotFound if the user cannot see one of them, and RateLimited if too many subscriptions of the
    user are catching up.
    """
    most = MAX_CHANNELS
    if len(positions) > MAX_CHANNELS and (profile := (await app.store.users.find_many([user])).get(user)) is not None:
        most = MAX_CHANNELS_OF_BOTS if profile.is_bot else MAX_CHANNELS
    check_positions(positions, most, "channels")
    if any(position.rev is not None for position in positions):
        app.catch_ups.check(user)
    for start in range(0, len(positions), _JUDGED_AT_ONCE):
        names = [position.id for position in positions[start : start + _JUDGED_AT_ONCE]]
        accesses = await access_conversations(app, user, names)
        if not all(access is not None and access.is_current for access in accesses):
            raise _not_visible()
    wanted = {ConversationId(position.id): position.rev for position in positions}
    sources = await read_patiently(partial(_Sources.attach, app, user, list(wanted), budget))
    view = _ChannelView(app, user, wanted, sources)
    if not view.sees_all:
        sources.close()
        raise _not_visible()
    return LiveStream(
        user, sources, sources.mailboxes, view, app.catch_ups, parts=view.missed(), on_close=sources.release
    )


def _not_visible() -> NotFound:
    return NotFound("there is no such channel or conversation", field="channels")


class _Sources:
    """The clocks of one subscription, with their mailboxes."""

    def __init__(self, app: Confab, user: UserId) -> None:
        """Begin without clocks."""
        self._app = app
        self._shared = SharedSubscription(app.shared_events, user)
        self._own: Mailbox | None = None
        self.own: UserSource | None = None
        self.by_conversation: dict[ConversationId, ChannelSource] = {}

    @classmethod
    async def attach(
        cls, app: Confab, user: UserId, conversations: Sequence[ConversationId], budget: QueueBudget
    ) -> _Sources:
        """Attach to the clocks that have the events of conversations. Raises StoreError: nothing is attached."""
        sources = cls(app, user)
        by_workspace: defaultdict[str, list[ConversationId]] = defaultdict(list)
        own = []
        for name in conversations:
            if is_in_workspace(name):
                by_workspace[workspace_of_channel(name)].append(name)
            else:
                own.append(name)
        try:
            threads = [name for names in by_workspace.values() for name in names if parse_thread(name) is not None]
            parents = await app.store.channel_rights.find_parents(threads)
            for workspace, channels in by_workspace.items():
                await sources._shared.add(workspace, channels, budget)
                source = WorkspaceSource(app, user, workspace, sources._shared, parents)
                sources.by_conversation |= dict.fromkeys(channels, source)
            if own:
                # Watches begin first: what happens after that is on the user's clock.
                begun = await app.watches.begin(user, watched_of(own))
                sources._own = await app.hub.attach(user, budget)
                sources.own = UserSource(app, user, sources._own, own)
                await sources.own.watch(sources._own.start, begun)
                # A membership may have ended before.
                await sources.own.refresh()
                sources.by_conversation |= dict.fromkeys(own, sources.own)
        except BaseException:
            sources.close()
            raise
        return sources

    @property
    def mailboxes(self) -> Sequence[Mailbox]:
        """One mailbox for each clock."""
        return [*self._shared.mailboxes, *([self._own] if self._own is not None else [])]

    def detach(self, mailbox: Mailbox) -> None:
        """Close a mailbox."""
        (self._app.hub if mailbox is self._own else self._app.shared_events.hub).detach(mailbox)

    def find_position(self, mailbox: Mailbox) -> Position | None:
        """Return the position of a mailbox's feed."""
        hub = self._app.hub if mailbox is self._own else self._app.shared_events.hub
        return hub.find_position(mailbox)

    def release(self) -> None:
        """Leave all audiences, and let watches end."""
        self._shared.release()
        if self.own is not None:
            self.own.release()

    def close(self) -> None:
        """Detach from all clocks."""
        for mailbox in self.mailboxes:
            self.detach(mailbox)
        self.release()


class _ChannelView:
    """The events of the conversations that one subscriber looks at."""

    __slots__ = ("_app", "_newest", "_revs", "_seen", "_sources", "_user", "_visible")

    def __init__(self, app: Confab, user: UserId, revs: Mapping[ConversationId, int | None], sources: _Sources) -> None:
        self._app = app
        self._user = user
        self._revs = revs
        self._sources = sources
        self._newest = NewestStates()
        self._visible = {name for name, source in sources.by_conversation.items() if source.has_access(name)}
        """The conversations of which events are shown, until an access is interrupted."""
        self._seen = {name: source.start for name, source in sources.by_conversation.items()}

    @property
    def sees_all(self) -> bool:
        """True if all conversations are visible."""
        return len(self._visible) == len(self._revs)

    async def missed(self) -> Parts:
        """Yield one part: the events after each rev, then ChannelCaughtUp for each conversation."""
        events: list[LiveEvent] = []
        resumed: set[ConversationId] = set()
        by_source: defaultdict[ChannelSource, dict[ConversationId, int]] = defaultdict(dict)
        for name, rev in self._revs.items():
            if rev is not None:
                by_source[self._sources.by_conversation[name]][name] = rev
        for source, revs in by_source.items():
            read = partial(source.read_missed, revs)
            found = await read_patiently(partial(self._app.catch_ups.read, self._user, read))
            start = source.start
            for name in found.resumed:
                # A client may have a later position from another server. Then this server gets the events soon.
                self._seen[name] = Position(start.epoch, max(start.tick, revs[name]))
            resumed |= found.resumed
            for position, event in found.items:
                name = event.conversation
                if name in found.resumed and revs[name] < position.tick <= start.tick:
                    payload = self._select(event)
                    events += [LiveEvent(payload, position)] if payload is not None else []
        for name, rev in self._revs.items():
            if name in self._visible:
                is_reset, seen = rev is not None and name not in resumed, self._seen[name]
                self._app.shared_events.hub.resets += is_reset
                if rev is not None:
                    self._app.shared_events.counters.count_resume(is_reset=is_reset)
                events.append(LiveEvent(ChannelCaughtUp(name, seen.tick, is_reset), seen))
        yield events

    def show(self, event: Event, position: Position) -> LivePayload | PayloadBatch | None:
        """Return what the subscriber sees of an event, and the ends of accesses."""
        shown = self._app.shared_events.user_clock_events.convert(event, position)
        if shown is not None:
            if shown is not event and is_in_workspace(shown.conversation):
                # A reply in a thread that the user follows. It is on the workspace's clock too, which is read for it.
                return None
            seen = self._seen.get(shown.conversation)
            if seen is None or not is_after(position, seen):
                return None
            if shown.conversation in self._visible and not self._has_access(shown.conversation):
                return self._end([shown.conversation])
            return self._select(shown)
        own = self._sources.own
        if isinstance(event, WorkspaceUpdate) or (own is not None and own.receive(event)):
            return self._end_all()
        return None

    def show_ephemeral(self, event: EphemeralEvent) -> EphemeralEvent | None:
        """Return the event of another user, if the subscriber looks at its conversation and has not blocked them."""
        if self._app.subscriber_blocks.has_blocked(self._user, event.user):
            return None
        is_shown = event.conversation in self._visible and self._has_access(event.conversation)
        return event if is_shown and event.user != self._user else None

    async def show_lagged(self, lagged: Lagged) -> Parts:
        """Return the events that make the client fetch the conversations of a clock again."""
        own = self._sources.own
        if own is not None and lagged.owner == self._user:
            await read_patiently(partial(own.start_over, lagged.position))
        events = [LiveEvent(payload, lagged.position) for payload in self._end_all() or ()]
        for name in sorted(self._visible):
            source = self._sources.by_conversation[name]
            if lagged.owner == (self._user if source is own else workspace_of_channel(name)):
                self._seen[name] = lagged.position
                self._app.shared_events.hub.resets += 1
                events.append(LiveEvent(ChannelCaughtUp(name, lagged.position.tick, reset=True), lagged.position))
        yield events

    def still_shows(self, payload: LivePayload) -> bool:
        """Return whether the subscriber may see the event under the present rights. AccessEnded follows otherwise."""
        if isinstance(payload, ChannelEvent):
            name = payload.conversation
            source = self._sources.by_conversation[name]
            return name in self._visible and source.has_access(name) and source.may_show(payload)
        if isinstance(payload, EphemeralEvent):
            return self._has_access(payload.conversation)
        return True

    def find_confirmation(self, payload: LivePayload, position: Position | None) -> None:
        """Return None: rights in channels are kept up to date."""

    def _select(self, event: ChannelEvent) -> ChannelEvent | None:
        name = event.conversation
        is_shown = name in self._visible and self._sources.by_conversation[name].may_show(event)
        if isinstance(event, ChannelReactions):
            return event if is_shown and self._newest.advance_reactions(event.message) else None
        message = event.full_message
        return event if is_shown and (message is None or self._newest.advance(message)) else None

    def _has_access(self, name: ConversationId) -> bool:
        return self._sources.by_conversation[name].has_access(name)

    def _end_all(self) -> PayloadBatch | None:
        return self._end(sorted(name for name in self._visible if not self._has_access(name)))

    def _end(self, names: Sequence[ConversationId]) -> PayloadBatch | None:
        """Show nothing more of conversations. Return the events that say so."""
        self._visible.difference_update(names)
        return PayloadBatch(map(_access_ended, names)) if names else None
