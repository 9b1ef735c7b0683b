"""The events of channels that a user looks at: missed ones, ChannelCaughtUp for each, then live ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from resolvers.base.app import Confab
from resolvers.base.errors import NotFound
from resolvers.conversations.access import access_conversations, list_readable
from resolvers.live.live_stream import LiveEvent, LivePayload, LiveStream, Parts, Several, is_after
from resolvers.live.newest_states import NewestStates
from resolvers.live.patient_reads import read_patiently
from resolvers.live.shared_positions import SharedPosition, check_positions
from store.base.ids import ConversationId, UserId
from subscriptions.realtime.events.base import EphemeralEvent, Event
from subscriptions.realtime.events.shared import ChannelMessage, SharedEvent, clock_owner
from subscriptions.realtime.mailboxes import Lagged, MailboxEvent, Position, QueueBudget
from subscriptions.realtime.shared.audience import AccessKey
from subscriptions.realtime.shared.replay import SharedReplay
from subscriptions.realtime.shared.subscription import SharedSubscription

MAX_CHANNELS = 20
MAX_CHANNELS_OF_BOTS = 1_000


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
    accesses = await access_conversations(app, user, [position.id for position in positions])
    if not all(access is not None and access.is_current for access in accesses):
        raise _not_visible()
    wanted = {ConversationId(position.id): position.rev for position in positions}
    by_owner: defaultdict[str, list[ConversationId]] = defaultdict(list)
    for conversation in wanted:
        by_owner[clock_owner(conversation)].append(conversation)
    subscription = await read_patiently(partial(app.shared_events.subscribe, user, by_owner, budget))
    view = _ChannelView(app, user, wanted, subscription)
    if not view.sees_all:
        subscription.close()
        raise _not_visible()
    return LiveStream(
        user,
        app.shared_events.hub,
        subscription.mailboxes,
        view,
        app.catch_ups,
        parts=view.missed(),
        on_close=subscription.release,
    )


def _not_visible() -> NotFound:
    return NotFound("there is no such channel or conversation", field="channels")


class _ChannelView:
    """The events of the conversations that one subscriber looks at."""

    __slots__ = ("_access", "_app", "_newest", "_revs", "_seen", "_subscription", "_user")

    def __init__(
        self, app: Confab, user: UserId, revs: Mapping[ConversationId, int | None], subscription: SharedSubscription
    ) -> None:
        self._app = app
        self._user = user
        self._revs = revs
        self._subscription = subscription
        self._newest = NewestStates()
        found = {conversation: self._find_access(conversation) for conversation in revs}
        self._access: dict[ConversationId, AccessKey] = {name: key for name, key in found.items() if key is not None}
        """The access to each conversation of which events are shown. An interruption changes it."""
        self._seen = {name: subscription.start(clock_owner(name)) for name in revs}

    @property
    def sees_all(self) -> bool:
        """True if all conversations are visible."""
        return len(self._access) == len(self._revs)

    async def missed(self) -> Parts:
        """Yield one part: the events after each rev, then ChannelCaughtUp for each conversation."""
        events: list[LiveEvent] = []
        resumed: set[ConversationId] = set()
        owners: defaultdict[str, dict[ConversationId, int]] = defaultdict(dict)
        for conversation, rev in self._revs.items():
            if rev is not None:
                owners[clock_owner(conversation)][conversation] = rev
        for owner, revs in owners.items():
            read = partial(self._read_missed, owner, revs)
            found = await read_patiently(partial(self._app.catch_ups.read, self._user, read))
            resumed |= found.keys()
            start = self._subscription.start(owner)
            shown: dict[int, MailboxEvent] = {}
            for conversation, items in found.items():
                rev = revs[conversation]
                # A client may have a later position from another server. Then this server gets the events soon.
                self._seen[conversation] = Position(start.epoch, max(start.tick, rev))
                shown |= {item.position.tick: item for item in items if rev < item.position.tick <= start.tick}
            for tick in sorted(shown):
                payload = self._select(shown[tick].event)
                if payload is not None:
                    events.append(LiveEvent(payload, shown[tick].position))
        for conversation, rev in self._revs.items():
            seen = self._seen[conversation]
            if conversation not in self._access:
                continue
            is_reset = rev is not None and conversation not in resumed
            self._app.shared_events.hub.resets += is_reset
            events.append(LiveEvent(ChannelCaughtUp(conversation, seen.tick, is_reset), seen))
        yield events

    async def _read_missed(
        self, owner: str, revs: Mapping[ConversationId, int]
    ) -> dict[ConversationId, list[MailboxEvent]]:
        """Return the events of the conversations whose rev can be resumed."""
        app, start = self._app, self._subscription.start(owner)
        clock = start.tick
        if max(revs.values()) > clock:
            # The client has a later position from another server, or one of the future.
            (reading,) = await app.store.clocks.read([owner])
            clock = reading.tick if reading.epoch == start.epoch else 0
        candidates = sorted({rev for rev in revs.values() if rev <= clock})
        readable = partial(list_readable, app.store, self._user)
        found: SharedReplay | None = None
        first = tried = 0
        last = len(candidates)
        while first < last:
            # All revs can be resumed that are not before one that can.
            replay = await app.shared_events.replayer.read(
                owner, candidates[tried], epoch=start.epoch, conversations=revs.keys(), list_readable=readable
            )
            if replay is not None:
                found, last = replay, tried
            else:
                first = tried + 1
            tried = (first + last) // 2
        if found is None:
            return {}
        items: defaultdict[ConversationId, list[MailboxEvent]] = defaultdict(list)
        for item in found.events:
            if isinstance(item.event, ChannelMessage):
                items[item.event.conversation].append(item)
        return {name: items[name] for name, rev in revs.items() if candidates[last] <= rev <= clock}

    def show(self, event: Event, position: Position) -> LivePayload | Several | None:
        """Return what the subscriber sees of an event, and the ends of accesses."""
        if isinstance(event, ChannelMessage):
            seen = self._seen.get(event.conversation)
            if seen is None or not is_after(position, seen):
                return None
            if event.conversation in self._access and not self._has_access(event.conversation):
                return self._end([event.conversation])
            return self._select(event)
        if isinstance(event, SharedEvent):
            return self._end([name for name in self._access if not self._has_access(name)])
        return None

    def show_ephemeral(self, event: EphemeralEvent) -> EphemeralEvent | None:
        """Return the event of another user, if the subscriber looks at its conversation."""
        is_shown = event.conversation in self._access and self._has_access(event.conversation)
        return event if is_shown and event.user != self._user else None

    def show_lagged(self, lagged: Lagged) -> Sequence[LiveEvent]:
        """Return the events that make the client fetch the conversations of a clock again."""
        ended = self._end([name for name in self._access if not self._has_access(name)])
        events = [LiveEvent(payload, lagged.position) for payload in ended or ()]
        for name in self._access:
            if clock_owner(name) == lagged.owner:
                self._seen[name] = lagged.position
                self._app.shared_events.hub.resets += 1
                events.append(LiveEvent(ChannelCaughtUp(name, lagged.position.tick, reset=True), lagged.position))
        return events

    def _select(self, event: Event) -> ChannelMessage | None:
        if not isinstance(event, ChannelMessage) or event.conversation not in self._access:
            return None
        return event if self._newest.advance(event.message) else None

    def _find_access(self, conversation: ConversationId) -> AccessKey | None:
        return self._subscription.audience(clock_owner(conversation)).find_access(self._user, conversation)

    def _has_access(self, conversation: ConversationId) -> bool:
        return self._find_access(conversation) == self._access[conversation]

    def _end(self, conversations: Sequence[ConversationId]) -> Several | None:
        """Show nothing more of conversations. Return the events that say so."""
        for conversation in conversations:
            del self._access[conversation]
        return Several(map(_access_ended, conversations)) if conversations else None
