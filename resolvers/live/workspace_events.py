"""The events of workspaces: what has changed meanwhile, WorkspaceCaughtUp for each, then live events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

from resolvers.base.app import Confab
from resolvers.base.errors import NotFound
from resolvers.live.live_stream import LiveEvent, LivePayload, LiveStream, Parts, PayloadBatch, is_after
from resolvers.live.patient_reads import read_patiently
from resolvers.live.shared_positions import SharedPosition, check_positions
from resolvers.live.workspace_voice import ShownVoiceState, read_missed_voice, show_voice
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id, workspace_of_channel
from store.workspaces.policy import Channel, MemberFacts
from store.workspaces.visible_channels import VisibleChannels
from subscriptions.realtime.events.base import EphemeralEvent, Event
from subscriptions.realtime.events.shared import (
    RIGHTS_OBJECT,
    WORKSPACE_OBJECT,
    ChannelActivity,
    WorkspaceUpdate,
)
from subscriptions.realtime.events.voice import VoiceStateChanged
from subscriptions.realtime.mailboxes import Lagged, Position, QueueBudget
from subscriptions.realtime.shared.activity import SECONDS_BETWEEN
from subscriptions.realtime.shared.subscription import SharedSubscription

MAX_WORKSPACES = 20

_RECENT_MARGIN_MS = int(5_000 * SECONDS_BETWEEN)
"""A client may have an event that is this much later than the last activity that waited for the end of its second."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkspaceChanged:
    """Name, picture, plan, roles or categories of a workspace have changed."""

    workspace: WorkspaceId
    rev: int


@dataclass(frozen=True, slots=True)
class ChannelChanged:
    """A channel is new to the subscriber, or its settings have changed. settings: as the subscriber could see them."""

    settings: Channel
    rev: int


@dataclass(frozen=True, slots=True)
class ChannelGone:
    """A channel was deleted, or is no longer visible to the subscriber."""

    channel: ConversationId
    rev: int


@dataclass(frozen=True, slots=True)
class OwnMembershipChanged:
    """The subscriber's own membership has changed. facts: None: it has ended, and no event of the workspace follows."""

    workspace: WorkspaceId
    facts: MemberFacts | None
    rev: int


@dataclass(frozen=True, slots=True)
class WorkspaceCaughtUp:
    """The end of what has changed meanwhile. reset: the client has to fetch the workspace again."""

    workspace: WorkspaceId
    rev: int
    reset: bool


@lru_cache(maxsize=4_000)
def _shared(kind: type[T], *values: object) -> T:
    """Return an event, the same object for all subscribers."""
    return kind(*values)


class _SameObject:
    """A key that is equal for the same object only, because settings of channels have no hash."""

    def __init__(self, settings: Channel) -> None:
        self.settings = settings

    def __hash__(self) -> int:
        return id(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.settings is other.settings


@lru_cache(maxsize=4_000)
def _channel_changed(settings: _SameObject, rev: int) -> ChannelChanged:
    """Return the event, the same object for all subscribers."""
    return ChannelChanged(settings.settings, rev)


async def workspace_events(
    app: Confab, user: UserId, positions: Sequence[SharedPosition], budget: QueueBudget
) -> LiveStream:
    """Return the events of workspaces after a position in each. No event after the return is missed.

    Raises InvalidInput, NotFound if the user is not a member of one of them, and RateLimited if too many subscriptions
    of the user are catching up.
    """
    check_positions(positions, MAX_WORKSPACES, "workspaces")
    if any(position.rev is not None for position in positions):
        app.catch_ups.check(user)
    for position in positions:
        # Nothing begins for a workspace that the user does not see.
        workspace = WorkspaceId(position.id)
        if not is_workspace_id(workspace) or await app.store.policies.find_member(workspace, user) is None:
            raise _not_visible()
    wanted = {WorkspaceId(position.id): position.rev for position in positions}
    subscribe = partial(app.shared_events.subscribe, user, dict.fromkeys(wanted), budget)
    subscription = await read_patiently(subscribe)
    if any(subscription.audience(workspace).find_facts(user) is None for workspace in wanted):
        subscription.close()
        raise _not_visible()
    view = _WorkspaceView(app, user, wanted, subscription)
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
    return NotFound("there is no such workspace", field="workspaces")


@dataclass(slots=True)
class _Seen:
    """The state of one workspace as the subscriber has it."""

    position: Position
    visible: VisibleChannels
    followed: set[ConversationId]


class _WorkspaceView:
    """The events of the workspaces that one subscriber has open."""

    __slots__ = ("_app", "_revs", "_seen", "_subscription", "_user")

    def __init__(
        self, app: Confab, user: UserId, revs: dict[WorkspaceId, int | None], subscription: SharedSubscription
    ) -> None:
        self._app = app
        self._user = user
        self._revs = revs
        self._subscription = subscription
        self._seen = {
            workspace: _Seen(subscription.start(workspace), self._find_visible(workspace), set()) for workspace in revs
        }
        """By workspace, until the membership ends."""

    async def missed(self) -> Parts:
        """Yield one part for each workspace: what has changed after its rev, then WorkspaceCaughtUp."""
        for workspace, rev in self._revs.items():
            seen = self._seen[workspace]
            await self._read_channels(workspace, seen)
            read = partial(self._read_missed, workspace, rev, seen)
            yield await read_patiently(partial(self._app.catch_ups.read, self._user, read))

    async def _read_missed(self, workspace: WorkspaceId, rev: int | None, seen: _Seen) -> list[LiveEvent]:
        app, start = self._app, self._subscription.start(workspace)
        if rev is None:
            return [LiveEvent(WorkspaceCaughtUp(workspace, start.tick, reset=False), start)]
        changes = await app.store.clocks.read_changes({workspace: rev}, self._user, recent_margin=_RECENT_MARGIN_MS)
        found = changes[workspace]
        # Only a client's old state tells which channels were visible before a change of rights.
        is_reset = (
            not found.is_complete
            or found.reading.epoch != start.epoch
            or found.own > 0
            or RIGHTS_OBJECT in found.changed
        )
        # A client may have a later position from another server. Then this server gets the events soon.
        seen.position = until = Position(start.epoch, start.tick if is_reset else max(start.tick, rev))
        app.shared_events.counters.count_resume(is_reset=is_reset)
        if is_reset:
            app.shared_events.hub.resets += 1
            return [LiveEvent(WorkspaceCaughtUp(workspace, until.tick, reset=True), until)]
        voice = await read_missed_voice(app.store, workspace, found.changed, seen.visible)
        if voice is None:
            app.shared_events.hub.resets += 1
            return [LiveEvent(WorkspaceCaughtUp(workspace, until.tick, reset=True), until)]
        recent = {
            name: tick
            for name, tick in found.recent.items()
            if name in seen.followed and seen.visible.has(ConversationId(name))
        }
        heads = await app.store.conversations.find_many(map(ConversationId, recent))
        events: list[tuple[int, object]] = []
        for name, tick in found.changed.items():
            channel = ConversationId(name)
            if name == WORKSPACE_OBJECT:
                events.append((tick, WorkspaceChanged(workspace, tick)))
            elif seen.visible.has(channel):
                events += [(tick, ChannelChanged(each, tick)) for each in self._settings(workspace, (channel,))]
        for channel, head in heads.items():
            if head.newest is not None:
                message, tick = head.newest, recent[channel]
                events.append((tick, ChannelActivity(channel, message.seq, message.n, message.created_at_ms, rev=tick)))
        events += [(event.rev, event) for event in voice]
        events.sort(key=lambda pair: pair[0])
        parts = [LiveEvent(event, Position(start.epoch, tick)) for tick, event in events if tick <= until.tick]
        return [*parts, LiveEvent(WorkspaceCaughtUp(workspace, until.tick, reset=False), until)]

    def show(self, event: Event, position: Position) -> PayloadBatch | ChannelActivity | ShownVoiceState | None:
        """Return what the subscriber sees of an event."""
        if isinstance(event, ChannelActivity):
            seen = self._seen.get(workspace_of_channel(event.channel))
            if seen is None or event.channel not in seen.followed or not seen.visible.has(event.channel):
                return None
            is_new = is_after(Position(position.epoch, event.rev), seen.position)
            return event if is_new and self._is_visible(event.channel) else None
        if isinstance(event, VoiceStateChanged):
            seen = self._seen.get(event.workspace)
            if seen is None or not is_after(position, seen.position):
                return None
            return show_voice(event, self._is_visible)
        if not isinstance(event, WorkspaceUpdate):
            return None
        seen = self._seen.get(event.workspace)
        if seen is None:
            return None
        shown = self._updates(event, seen, is_new=is_after(position, seen.position))
        return PayloadBatch(shown) if shown else None

    def _updates(self, event: WorkspaceUpdate, seen: _Seen, *, is_new: bool) -> list[object]:
        """Return what an update shows. It costs little if it does not concern the subscriber."""
        workspace, rev = event.workspace, event.rev
        for channel, follows in event.follows_by_user.get(self._user, ()):
            (seen.followed.add if follows else seen.followed.discard)(channel)
        facts = self._subscription.audience(workspace).find_facts(self._user)
        if facts is None:
            del self._seen[workspace]
            return [OwnMembershipChanged(workspace, None, rev)]
        before, seen.visible = seen.visible, self._find_visible(workspace)
        shown: list[object] = []
        if is_new and event.is_changed:
            shown.append(_shared(WorkspaceChanged, workspace, rev))
        if is_new and self._user in event.changed_members:
            shown.append(OwnMembershipChanged(workspace, facts, rev))
        changed = set(filter(seen.visible.has, event.channels)) if is_new else set()
        new = seen.visible.without(before)
        if changed or new:
            settings = self._settings(workspace, sorted(changed | new))
            shown += [_channel_changed(_SameObject(each), rev) for each in settings]
        shown += [_shared(ChannelGone, channel, rev) for channel in sorted(before.without(seen.visible))]
        return shown

    def show_ephemeral(self, event: EphemeralEvent) -> None:
        """Return None: typing is shown where the channel is on the screen."""

    def show_lagged(self, lagged: Lagged) -> Parts:
        """Return the event that makes the client fetch a workspace again."""
        return self._start_over(WorkspaceId(lagged.owner), lagged.position)

    def still_shows(self, payload: LivePayload) -> bool:
        """Return False for what an event shows of a workspace or channel that the subscriber no longer sees."""
        match payload:
            case WorkspaceChanged(workspace):
                return self._subscription.audience(workspace).find_facts(self._user) is not None
            case ChannelChanged(settings):
                return self._is_visible(settings.id)
            case ChannelActivity():
                return self._is_visible(payload.channel)
            case ShownVoiceState():
                return self._is_visible(payload.state.channel)
            case OwnMembershipChanged(workspace, facts) if facts is not None:
                return self._subscription.audience(workspace).find_facts(self._user) is not None
            case _:
                return True

    def find_confirmation(self, payload: LivePayload, position: Position | None) -> None:
        """Return None: rights in workspaces are kept up to date."""

    async def _start_over(self, workspace: WorkspaceId, position: Position) -> Parts:
        seen = self._seen.get(workspace)
        if seen is None:
            return
        if self._subscription.audience(workspace).find_facts(self._user) is None:
            del self._seen[workspace]
            yield [LiveEvent(OwnMembershipChanged(workspace, None, position.tick), position)]
            return
        await self._read_channels(workspace, seen)
        seen.position = position
        self._app.shared_events.hub.resets += 1
        yield [LiveEvent(WorkspaceCaughtUp(workspace, position.tick, reset=True), position)]

    async def _read_channels(self, workspace: WorkspaceId, seen: _Seen) -> None:
        """Read which channels the user follows. Changes during this have events of their own.

        Includes channels that are hidden from the user: they are still followed when they become visible.
        """
        members = self._app.store.channel_rights.members
        policy = self._subscription.audience(workspace).policy
        channels = tuple(policy.channels) if policy is not None else ()
        read = partial(members.list_followed, workspace, self._user, channels)
        seen.followed = await read_patiently(partial(self._app.catch_ups.read, self._user, read))
        seen.visible = self._find_visible(workspace)

    def _find_visible(self, workspace: WorkspaceId) -> VisibleChannels:
        return self._subscription.audience(workspace).find_visible(self._user)

    def _settings(self, workspace: WorkspaceId, channels: Iterable[ConversationId]) -> Iterable[Channel]:
        policy = self._subscription.audience(workspace).policy
        return [policy.channels[channel] for channel in channels] if policy is not None else ()

    def _is_visible(self, channel: ConversationId) -> bool:
        return self._find_visible(workspace_of_channel(channel)).has(channel)
