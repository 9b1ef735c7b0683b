"""The presence of the people on a screen: first what each is now, then changes.

Users whose presence the subscriber may not see are shown like users who were never there, and are not watched.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import structlog

from resolvers.base.app import Confab
from resolvers.base.errors import RateLimited
from resolvers.live.live_stream import LiveEvent, LiveEventReceiver, LivePayload
from resolvers.live.patient_reads import read_patiently
from resolvers.presence.audience import VisibleUsers, check_users, find_visible, presence_for_blocked
from store.base.errors import StoreError
from store.base.ids import UserId
from store.blocks.block_store import ChangedBlock
from store.messages.message import MessageKind
from store.presence.shown_presence import ShownPresence, is_same
from store.sessions.fields import SyncReason
from subscriptions.presence.presence_watch import PresenceState
from subscriptions.realtime.events.base import Event
from subscriptions.realtime.events.groups import GroupChanged
from subscriptions.realtime.events.messages import MessageCreated
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.mailboxes import Lagged, Mailbox, Position, QueueBudget

_log = structlog.get_logger()

JUDGE_SECONDS = 60.0
"""Longest time between two judgements of what a subscriber may see."""

_JUDGE_AGAIN_SECONDS = 5.0
"""Least time between two judgements because of changed memberships, which come in groups."""

_SOON_SECONDS = 0.1

_NO_POSITION = Position("", 0)


async def presence_events(app: Confab, user: UserId, users: Sequence[str], budget: QueueBudget) -> PresenceStream:
    """Return the presence of at most 200 users. No change after the return is missed.

    Raises InvalidInput, and RateLimited if the user's work budget has too few units.
    """
    asked = list(dict.fromkeys(check_users(users)))
    mailbox = await read_patiently(partial(app.hub.attach, user, budget))
    stream = PresenceStream(app, user, asked, mailbox)
    try:
        # Changes of memberships from now on cause another judgement.
        await read_patiently(stream.begin)
    except BaseException:
        stream.close()
        raise
    return stream


class PresenceStream:
    """The events of one subscription: at most one per user waits, with the newest state."""

    __slots__ = (
        "_app",
        "_asked",
        "_changed_blocks",
        "_is_closed",
        "_judged_at",
        "_judged_until",
        "_judging",
        "_mailbox",
        "_pending",
        "_ready",
        "_receiver",
        "_timer",
        "_user",
        "_visible",
        "_watch",
    )

    def __init__(self, app: Confab, user: UserId, asked: Sequence[UserId], mailbox: Mailbox) -> None:
        """Create a stream. It closes the mailbox, which is on the clock of the subscriber.

        asked: the users, each once.
        """
        self._app = app
        self._user = user
        self._asked = asked
        self._mailbox = mailbox
        self._watch = app.presence.watch(self._listen)
        self._visible: set[UserId] = set()
        self._changed_blocks: dict[UserId, ShownPresence | None] = {}
        """Users who have blocked or unblocked the subscriber since the last judgement began."""
        self._pending: dict[UserId, PresenceState] = {}
        self._receiver: LiveEventReceiver | None = None
        self._ready: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._judging: asyncio.Task[None] | None = None
        self._judged_at = 0.0
        self._judged_until = 0.0
        """Time until which the last judgement counts, if the work budget does not allow another one."""
        self._is_closed = False
        mailbox.receive_with(self._note_event)
        mailbox.on_ready(self._empty_mailbox)
        app.memberships.listen(user, self._judge_soon)
        app.blocker_cache.listen(user, self._note_block)

    async def begin(self) -> None:
        """Read the present state of all users, which are the first events. Raises StoreError: it may be repeated."""
        self._changed_blocks.clear()
        audience = await find_visible(self._app, self._user, self._asked)
        self._visible = audience.users
        self._hide(audience.blockers)
        states = await self._watch.add([user for user in self._asked if user in self._visible])
        now_ms = self._app.store.clock.now_ms()
        self._pending = {user: states.get(user) or _never_seen(user, now_ms) for user in self._asked}
        self._judged_at = asyncio.get_running_loop().time()
        self._judged_until = self._judged_at + JUDGE_SECONDS
        self._set_timer(JUDGE_SECONDS)

    @property
    def is_catching_up(self) -> bool:
        """Return False: others may see the same state."""
        return False

    def on_ready(self, call: Callable[[], None]) -> None:
        """Make `call` when `take` has returned None and may return an event again."""
        self._ready = call

    def hand_over_to(self, receiver: LiveEventReceiver) -> None:
        """Hand events to a receiver while it is ready and none waits."""
        self._receiver = receiver

    def take(self) -> LiveEvent | None:
        """Remove and return the newest state of the user who has waited longest."""
        for user in self._pending:
            return LiveEvent(self._pending.pop(user), None)
        return None

    def still_shows(self, payload: LivePayload) -> bool:
        """Return False for what the subscriber may not see of a user any more. Another event follows."""
        assert isinstance(payload, PresenceState)
        user = payload.shown.user
        hidden = self._watch.hidden.get(user)
        if hidden is not None:
            return is_same(payload.shown, hidden)
        return user in self._visible or payload.shown == ShownPresence(user)

    def drop(self, position: Position) -> None:
        """Do nothing: events of this kind are not dropped. A slow reader gets the newest states only."""

    def close(self) -> None:
        """End the stream. Idempotent."""
        self._is_closed = True
        self._ready = self._receiver = None
        self._pending = {}
        self._watch.close()
        self._app.hub.detach(self._mailbox)
        self._app.memberships.unlisten(self._user, self._judge_soon)
        self._app.blocker_cache.unlisten(self._user, self._note_block)
        if self._timer is not None:
            self._timer.cancel()
        if self._judging is not None:
            self._judging.cancel()

    def _listen(self, state: PresenceState) -> None:
        """Take a new state of a watched user."""
        receiver = self._receiver
        if receiver is not None and not self._pending and receiver.is_ready:
            receiver.receive(state, _NO_POSITION)
        else:
            self._show((state,))

    def _show(self, states: Iterable[PresenceState]) -> None:
        for state in states:
            self._pending[state.shown.user] = state
        if self._pending and self._ready is not None:
            self._ready()

    # What the subscriber may see

    def _note_event(self, _position: Position, event: Event) -> bool:
        """Judge again if the event may change who shares a conversation with the subscriber. It is not queued."""
        match event:
            case SessionChanged(reason=SyncReason.MEMBERSHIP) | GroupChanged():
                self._judge_soon()
            case MessageCreated(message=message) if message.kind is MessageKind.SYSTEM:
                self._judge_soon()
        return True

    def _note_block(self, change: ChangedBlock | None) -> None:
        """Show another user as offline, or as they are. None: changes may have been missed."""
        if change is None:
            self._judge_soon()
        elif change.blocker in self._asked:
            block = change.block
            shown = presence_for_blocked({change.blocker: block}) if block is not None else {}
            self._changed_blocks[change.blocker] = shown.get(change.blocker)
            self._hide(self._watch.hidden)

    def _hide(self, hidden: Mapping[UserId, ShownPresence]) -> None:
        """Hide users, and apply what has changed since they were read."""
        present = {user: shown for user, shown in hidden.items() if user not in self._changed_blocks}
        changed = {user: shown for user, shown in self._changed_blocks.items() if shown is not None}
        self._watch.hide(present | changed)

    def _empty_mailbox(self) -> None:
        while (item := self._mailbox.take()) is not None:
            if isinstance(item, Lagged):
                self._judge_soon()

    def _judge_soon(self) -> None:
        now = asyncio.get_running_loop().time()
        self._set_timer(max(_SOON_SECONDS, self._judged_at + _JUDGE_AGAIN_SECONDS - now))

    def _set_timer(self, seconds: float) -> None:
        """Judge after a time, unless that happens earlier anyway."""
        if self._is_closed or not self._asked:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if not self._timer.cancelled() and self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._begin_judging)

    def _begin_judging(self) -> None:
        self._timer = None
        if self._judging is None:
            self._judging = asyncio.create_task(self._judge())
        else:
            self._set_timer(_SOON_SECONDS)

    async def _judge(self) -> None:
        # Subscriptions that have begun together must not all read at the same moment later.
        seconds = JUDGE_SECONDS * random.uniform(0.8, 1.0)
        try:
            with self._app.request_scope(self._user):
                began_at = self._judged_at = asyncio.get_running_loop().time()
                await self._apply(await self._find_visible(began_at))
        except (StoreError, RateLimited) as error:
            _log.info("presence_not_judged_yet", reason=str(error))
            seconds = _JUDGE_AGAIN_SECONDS
        except Exception:
            _log.exception("presence_not_judged")
        self._judging = None
        self._set_timer(seconds)

    async def _find_visible(self, now: float) -> VisibleUsers:
        """Return the users that may be shown from now on. Raises StoreError, and RateLimited if the time is not over.

        Without work units, nobody else is shown after that time: otherwise a subscriber who has used up the units
        would go on seeing users after they share nothing any more.
        """
        self._changed_blocks.clear()
        try:
            audience = await find_visible(self._app, self._user, self._asked)
        except RateLimited:
            if now < self._judged_until:
                raise
            return VisibleUsers({self._user}, self._watch.hidden)
        self._judged_until = now + JUDGE_SECONDS
        return audience

    async def _apply(self, audience: VisibleUsers) -> None:
        """Show users from now on, or no longer."""
        visible = audience.users
        self._hide(audience.blockers)
        now_ms = self._app.store.clock.now_ms()
        removed = [user for user in self._asked if user in self._visible and user not in visible]
        self._visible.difference_update(removed)
        last = self._watch.remove(removed)
        never_seen = [_never_seen(user, now_ms) for user in removed]
        self._show(
            state
            for state in never_seen
            if state.shown.user in self._pending or not is_same(state.shown, last[state.shown.user].shown)
        )
        new = [user for user in self._asked if user in visible and user not in self._visible]
        if new:
            states = await self._watch.add(new)
            self._visible.update(new)
            self._show(state for user, state in states.items() if not is_same(state.shown, ShownPresence(user)))


def _never_seen(user: UserId, at_ms: int) -> PresenceState:
    """Return the state of a user who was never there."""
    return PresenceState(ShownPresence(user), at_ms)
