"""Gives messages the previews of their links, after they are sent or edited, and shows them as MessageUpdated (ADR 78).

What has to be done is stored in the message. A server that has too much to do, or dies, leaves it to housekeeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationId, ConversationKind, MessageId, kind_of, without_thread
from store.base.tasks import end_tasks
from store.messages.message import Message
from store.previews.embed import Embed
from store.previews.links import find_links
from store.redis.request_scope import RequestScope
from store.store import Store
from subscriptions.delivery.revisions import Revisions

_log = structlog.get_logger()

LEASE_MS = 30_000
"""Time that a server has for the links of a message before any other one fetches them."""

_AT_ONCE = 8
"""Messages whose links one process fetches at the same time."""

_MOST_WAITING = 500
"""Messages of one process whose links are being fetched or wait for that. Housekeeping takes the others later."""

_TAKEN_AT_ONCE = 50

_ATTEMPTS = 5
"""Writes of one message's previews. Each edit of the message meanwhile needs another one."""

_FETCH_SECONDS = 15.0
"""Longest time for one link. The fetcher has shorter limits of its own."""

_GIVE_UP_MS = 10 * 60_000
"""Age of a text from which on links that could not be fetched in time are left without previews."""

_WITH_PREVIEWS = (ConversationKind.GROUP, ConversationKind.CHANNEL)

FindPreview = Callable[[str], Awaitable[Embed | None]]
"""Returns the preview of a link; None if it has none. Raises StoreError if it could not be found out now."""


class PreviewWorker:
    """Adds previews to messages with links. `close` leaves what is not done to other servers."""

    def __init__(self, store: Store, revisions: Revisions, find_preview: FindPreview, *, is_enabled: bool) -> None:
        self._store = store
        self._revisions = revisions
        self.find_preview = find_preview
        self.is_enabled = is_enabled
        self._jobs: dict[MessageId, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of messages whose links are being fetched or wait for that in this process."""
        return len(self._jobs)

    def due_ms(self, conversation: ConversationId, text: str) -> int | None:
        """Return the mark of a new text with links that have to be fetched; None if there is nothing to fetch."""
        if "://" not in text or not self.is_enabled or kind_of(without_thread(conversation)) not in _WITH_PREVIEWS:
            return None
        return self._store.clock.now_ms() + LEASE_MS if find_links(text) else None

    def begin(self, message: Message) -> None:
        """Begin to fetch the links of a stored message, if any are pending."""
        if message.embeds.links_due_ms is not None:
            self._start(message)

    def _start(self, message: Message) -> None:
        if self._closed or message.id in self._jobs or len(self._jobs) >= _MOST_WAITING:
            return
        # Not in the context of the request, whose user would wait for the reads of this task.
        task = asyncio.get_running_loop().create_task(self._run(message), context=Context())
        self._jobs[message.id] = task
        task.add_done_callback(lambda _: self._jobs.pop(message.id, None))

    async def continue_due(self) -> int:
        """Begin with messages whose links no server has fetched in time. Return their number. Raises StoreError."""
        if not self.is_enabled or len(self._jobs) >= _MOST_WAITING:
            return 0
        self._store.cache.require_shared()
        now_ms = self._store.clock.now_ms()
        due = await self._store.embeds.take_due(now_ms, now_ms + LEASE_MS, _TAKEN_AT_ONCE)
        for message in due:
            self._start(message)
        return len(due)

    async def close(self) -> None:
        """Stop. Other servers continue."""
        self._closed = True
        await end_tasks(self._jobs.values())

    async def _run(self, message: Message) -> None:
        with RequestScope():
            async with self._turns:
                try:
                    await self._fetch(message)
                except StoreError as error:
                    _log.info("previews_not_stored_yet", message=message.id, reason=str(error))
                except Exception:
                    _log.exception("previews_failed", message=message.id)

    async def _fetch(self, message: Message) -> None:
        """Store the previews of a message's links. If it is edited meanwhile, begin with its new text."""
        fetched: dict[str, Embed | None] = {}
        present: Message | None = message
        for _ in range(_ATTEMPTS):
            if present is None or (present.embeds.links_due_ms is None and not present.is_recalled):
                return
            links = find_links(present.text or "")
            known = present.embeds.previews
            missing = [link for link in links if link not in known and link not in fetched]
            gives_up = self._is_old(present)
            found = await asyncio.gather(*(self._find_one(link, gives_up=gives_up) for link in missing))
            fetched |= dict(zip(missing, found, strict=True))
            previews = (known.get(link) or fetched.get(link) for link in links)
            embeds = (*present.embeds.given, *(preview for preview in previews if preview is not None))
            # Others see the change only by the deployment's Redis.
            self._store.cache.require_shared()
            if embeds == present.embeds.items:
                if await self._store.embeds.clear_pending(present):
                    return
                present = await self._find(message)
            else:
                present = await self._revisions.set_previews(present, embeds)

    def _is_old(self, message: Message) -> bool:
        changed_ms = max(message.created_at_ms, message.edited_at_ms or 0)
        return self._store.clock.now_ms() - changed_ms > _GIVE_UP_MS

    async def _find_one(self, link: str, *, gives_up: bool) -> Embed | None:
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                return await self.find_preview(link)
        except TimeoutError:
            return None
        except Exception as error:
            if not gives_up:
                raise
            _log.warning("preview_given_up", error=type(error).__name__)
            return None

    async def _find(self, message: Message) -> Message | None:
        place = (message.conversation, message.seq)
        found = (await self._store.messages.find_many([place])).get(place)
        return found if found is not None and found.id == message.id else None
