"""The message events of a user: missed ones, CaughtUp, then live ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_sync
from resolvers.base.errors import NotFound
from resolvers.conversations.access import access_conversation
from resolvers.live.live_stream import CaughtUp, Confirm, LiveEvent, LivePayload, LiveStream, Parts, is_after
from resolvers.live.newest_states import NewestStates
from resolvers.live.patient_reads import read_patiently
from store.base.ids import UserId, parse_thread, without_thread
from store.base.workspace_ids import is_in_workspace
from subscriptions.realtime.events.base import EphemeralEvent, Event, MessageStreamEvent
from subscriptions.realtime.events.messages import Mentioned
from subscriptions.realtime.events.reactions import ReactionsChanged
from subscriptions.realtime.mailboxes import Lagged, MailboxEvent, Position, QueueBudget
from subscriptions.realtime.replay import sort_replay

_CAUGHT_UP = CaughtUp(reset=False)
_RESET = CaughtUp(reset=True)


async def message_events(
    app: Confab, user: UserId, since: str | None, conversation: str | None, budget: QueueBudget
) -> LiveStream:
    """Return the user's message events after a cursor, in all their conversations or in one.

    No event after the return is missed. Raises NotFound for a conversation that the user was never in, and RateLimited
    if too many subscriptions of the user are catching up.
    """
    if conversation is not None and await access_conversation(app, user, conversation) is None:
        raise NotFound("there is no such conversation", field="conversationId")
    if since is not None:
        app.catch_ups.check(user)
    mailbox = await read_patiently(partial(app.hub.attach, user, budget))
    view = _MessageView(app, user, mailbox.start, conversation)
    if since is None:
        caught_up = LiveEvent(_CAUGHT_UP, mailbox.start)
        return LiveStream(user, app.hub, (mailbox,), view, app.catch_ups, first=[caught_up])
    parts = view.missed(mailbox.start, since)
    return LiveStream(user, app.hub, (mailbox,), view, app.catch_ups, parts=parts)


class _MessageView:
    """The message events of one subscriber."""

    __slots__ = ("_app", "_conversation", "_newest", "_seen", "_user")

    def __init__(self, app: Confab, user: UserId, start: Position, conversation: str | None) -> None:
        self._app = app
        self._user = user
        self._seen = start
        self._conversation = conversation
        self._newest = NewestStates()

    async def missed(self, start: Position, since: str) -> Parts:
        """Yield one part: the events after a cursor, then CaughtUp."""
        app, user = self._app, self._user
        read = partial(_read_missed, app, user, start, since)
        missed = await read_patiently(partial(app.catch_ups.read, user, read))
        if missed is None:
            app.hub.resets += 1
            yield [LiveEvent(_RESET, self._seen)]
            return
        self._seen = missed.until
        shown = [(self._select(item.event), item.position) for item in missed.items]
        events = [LiveEvent(event, position) for event, position in shown if event is not None]
        yield [*events, LiveEvent(_CAUGHT_UP, self._seen)]

    def show(self, event: Event, position: Position) -> MessageStreamEvent | None:
        """Return the message event, if the subscriber has not seen it yet."""
        return self._select(event) if is_after(position, self._seen) else None

    def show_ephemeral(self, event: EphemeralEvent) -> EphemeralEvent | None:
        """Return the event, if it belongs to the subscriber's conversation. Typing of blocked users is not shown."""
        return event if self._is_selected(event) and not self._has_blocked(event.user) else None

    def show_lagged(self, lagged: Lagged) -> Sequence[LiveEvent]:
        """Return the event that makes the client start over."""
        self._seen = lagged.position
        return [LiveEvent(_RESET, lagged.position)]

    def still_shows(self, payload: LivePayload) -> bool:
        """Return False for an event in a channel that the subscriber is known not to see any more."""
        event = _event_in_workspace(payload)
        if event is None:
            return True
        channel = without_thread(event.conversation)
        return not self._app.store.channel_rights.is_known_hidden(self._user, channel)

    def find_confirmation(self, payload: LivePayload, position: Position | None) -> Confirm | None:
        """Return the read of the present rights for a mention in a channel, or an event of a thread in one.

        These are the only events on a user's clock that need rights in a channel. This process may have no subscription
        to the channel's workspace, and then nobody asks it about changes.
        """
        event = _event_in_workspace(payload)
        if event is None:
            return None
        is_live = position is None or is_after(position, self._seen)
        return partial(read_patiently, partial(self._may_see, event, is_live))

    async def _may_see(self, event: MessageStreamEvent, is_live: bool) -> bool:
        channel = without_thread(event.conversation)
        rights = await self._app.store.channel_rights.find_present(self._user, channel)
        if rights is None:
            return False
        history = rights.history
        message = event.message if isinstance(event, ReactionsChanged) else event.full_message
        if history is None:
            return is_live
        thread = parse_thread(event.conversation)
        if thread is None:
            return message is None or history.has(message)
        parent = None
        if history.needs_ids:
            parents = await self._app.store.channel_rights.find_parents([event.conversation])
            parent = parents.get(event.conversation)
        if message is None:
            return history.has_parent(thread.seq, parent)
        return history.has_reply(thread.seq, parent, message)

    def _select(self, event: Event) -> MessageStreamEvent | None:
        shown = event.message_event
        if shown is None or not self._is_selected(shown):
            return None
        if isinstance(shown, Mentioned) and self._has_blocked(shown.message.sender):
            return None
        if isinstance(shown, ReactionsChanged):
            return shown if self._newest.advance_reactions(shown.message) else None
        message = shown.full_message
        if message is not None:
            return shown if self._newest.advance(message) else None
        group = shown.full_group
        return shown if group is None or self._newest.advance_group(group) else None

    def _has_blocked(self, other: UserId) -> bool:
        return self._app.subscriber_blocks.has_blocked(self._user, other)

    def _is_selected(self, event: MessageStreamEvent) -> bool:
        return self._conversation is None or event.conversation == self._conversation


def _event_in_workspace(payload: LivePayload) -> MessageStreamEvent | None:
    """Return the payload if it is an event in a channel, or in a thread of a channel; else None."""
    if isinstance(payload, CaughtUp):
        return None
    event = cast(MessageStreamEvent, payload)
    return event if is_in_workspace(event.conversation) else None


@dataclass(frozen=True, slots=True)
class _Missed:
    """The missed events up to a position. Live events come after it."""

    items: list[MailboxEvent]
    until: Position


async def _read_missed(app: Confab, user: UserId, start: Position, since: str) -> _Missed | None:
    """Return the events after the cursor, up to the start of live events; None if some of them are not known.

    A cursor may be later than that start if the client got it from another server. Then this server gets the events
    soon.
    """
    cursor = decode_sync(app.store.deployment.name, user, since)
    if cursor is None or cursor.epoch != start.epoch:
        return None
    logged = await app.replayer.since(user, cursor)
    if logged is None:
        return None
    if cursor.tick >= start.tick:
        return _Missed([], cursor)
    due = [item for item in logged if item.position.tick <= start.tick]
    return _Missed(sort_replay(cursor, due), start)
