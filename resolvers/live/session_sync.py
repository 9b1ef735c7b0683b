"""The session changes of a user: missed ones in parts, then live ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_sync
from resolvers.base.pages import LARGEST_PAGE
from resolvers.live.live_stream import LiveEvent, LivePayload, LiveStream, Parts, SessionSync, is_after
from resolvers.live.patient_reads import read_patiently
from resolvers.sessions.session_lists import changed_since
from store.base.ids import UserId
from store.sessions.fields import SyncReason
from subscriptions.realtime.events.base import EphemeralEvent, Event
from subscriptions.realtime.events.sessions import SessionChanged
from subscriptions.realtime.mailboxes import Lagged, Position, QueueBudget

T = TypeVar("T")


async def sync_session(app: Confab, user: UserId, since: str | None, budget: QueueBudget) -> LiveStream:
    """Return the changes of the user's sessions after a cursor. No change after the return is missed.

    Raises RateLimited if too many subscriptions of the user are catching up.
    """
    app.catch_ups.check(user)
    mailbox = await read_patiently(partial(app.hub.attach, user, budget))
    view = _SessionView(app, user, mailbox.start)
    return LiveStream(user, app.hub, (mailbox,), view, app.catch_ups, parts=view.missed(since))


class _SessionView:
    """The session changes of one subscriber."""

    __slots__ = ("_app", "_seen", "_start", "_user")

    def __init__(self, app: Confab, user: UserId, start: Position) -> None:
        self._app = app
        self._user = user
        self._start = self._seen = start

    async def missed(self, since: str | None) -> Parts:
        """Yield the sessions that changed after a cursor; without a cursor, one part with only the total."""
        if since is None:
            present = await self._read(partial(self._app.store.sessions.find_many, self._user, ()))
            yield [LiveEvent(SessionSync(SyncReason.CATCH_UP, (), present.total_unread), self._start)]
            return
        async for part in self._catch_up(decode_sync(self._app.store.deployment.name, self._user, since)):
            yield part

    async def _read(self, read: Callable[[], Awaitable[T]]) -> T:
        return await read_patiently(partial(self._app.catch_ups.read, self._user, read))

    def show(self, event: Event, position: Position) -> SessionChanged | None:
        """Return the session change, if the subscriber has not seen it yet."""
        changed = event.session_event
        return changed if changed is not None and is_after(position, self._seen) else None

    def show_ephemeral(self, event: EphemeralEvent) -> None:
        """Return None: these events change no session."""

    def show_lagged(self, lagged: Lagged) -> Parts:
        """Return all sessions."""
        return self._catch_up(None)

    def still_shows(self, payload: LivePayload) -> bool:
        """Return True: these are the user's own sessions."""
        return True

    def find_confirmation(self, payload: LivePayload, position: Position | None) -> None:
        """Return None: no event needs a read."""

    async def _catch_up(self, cursor: Position | None) -> Parts:
        """Yield all sessions that changed after the cursor, in parts.

        If the cursor is None or can no longer be used, these are all sessions, with `reset`.
        """
        reset = False
        while True:
            delta = await self._read(partial(changed_since, self._app, self._user, cursor, LARGEST_PAGE, asked=True))
            reset = reset or delta.reset
            self._seen = delta.cursor
            sync = SessionSync(SyncReason.CATCH_UP, delta.sessions, delta.total_unread, delta.has_more, reset)
            yield [LiveEvent(sync, delta.cursor)]
            if not delta.has_more:
                return
            cursor = delta.cursor
