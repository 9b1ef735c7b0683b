"""Replay of events on shared clocks, with the content that the log entries refer to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple

from store.base.ids import ConversationId, UserId
from store.clocks.clock_constants import LOG_LENGTH
from store.clocks.shared_clocks import SharedClocks
from store.messages.message_store import MessageStore
from subscriptions.realtime.events.base import LogEntry, MessagePlace, ReplayContent, WholeEvent
from subscriptions.realtime.events.shared import SharedEvent, WorkspaceUpdate, parse_shared_entry
from subscriptions.realtime.mailboxes import MailboxEvent, Position

ListReadable = Callable[[Collection[MessagePlace]], Awaitable[Collection[MessagePlace]]]
"""Returns the messages that a user may read at present."""

WaitForRights = Callable[[str, int, Collection[UserId]], Awaitable[None]]
"""Waits until rights on a clock are judged under a version or a later one, with the present nicknames of some users."""

LONGEST_REPLAY = 5_000
"""Largest number of events in one replay; more are a reset."""

_WHOLE_LOG = 2 * LOG_LENGTH
"""More entries than a log holds, which Redis trims only roughly."""


class SharedReplay(NamedTuple):
    """The events after a position, in the order of the clock. epoch: the present one."""

    epoch: str
    events: list[MailboxEvent]


class SharedReplayer:
    """Turns entries of the logs of shared clocks back into events, with the present state of messages."""

    def __init__(self, clocks: SharedClocks, messages: MessageStore, wait_for_rights: WaitForRights) -> None:
        self._clocks = clocks
        self._messages = messages
        self._wait_for_rights = wait_for_rights

    async def since(self, owner: str, position: Position) -> list[MailboxEvent] | None:
        """Return every event of a clock after a position, for all subscribers; None if some are not known."""
        replay = await self.read(owner, position.tick, epoch=position.epoch)
        return replay.events if replay is not None else None

    async def read(
        self,
        owner: str,
        tick: int,
        *,
        epoch: str = "",
        conversations: Collection[ConversationId] | None = None,
        list_readable: ListReadable | None = None,
    ) -> SharedReplay | None:
        """Return events of a clock after a tick; None if some are not known, or they are too many.

        Args:
            owner: The owner of the clock.
            tick: The position.
            epoch: Of the position; "" if it is not known.
            conversations: Only the events of messages in these; None: all events.
            list_readable: Leaves out messages that a user may not read. Without it, the events are for all.
        """
        found = await self._clocks.read_log(owner, tick, _WHOLE_LOG, epoch=epoch)
        if found is None:
            return None
        present_epoch, logged = found
        versions = [int(event.version) for event in logged if event.version]
        entries = [(event.tick, parse_shared_entry(event.entry)) for event in logged]
        whole = [entry.event for _, entry in entries if isinstance(entry, WholeEvent)]
        renamed = {user for event in whole if isinstance(event, WorkspaceUpdate) for user in event.renamed}
        await self._wait_for_rights(owner, max(versions, default=0), renamed)
        if conversations is not None:
            entries = [(at, entry) for at, entry in entries if any(c in conversations for c, _ in entry.message_places)]
        if len(entries) > LONGEST_REPLAY:
            return None
        return SharedReplay(present_epoch, await self._with_content(present_epoch, entries, list_readable))

    async def _with_content(
        self, epoch: str, entries: Sequence[tuple[int, LogEntry]], list_readable: ListReadable | None
    ) -> list[MailboxEvent]:
        places: Collection[MessagePlace] = {place for _, entry in entries for place in entry.message_places}
        if places and list_readable is not None:
            places = await list_readable(places)
        content = ReplayContent(await self._messages.find_many(places) if places else {}, {}, 0)
        events = []
        for tick, entry in entries:
            event = entry.replay(content)
            if isinstance(event, SharedEvent):
                events.append(MailboxEvent(Position(epoch, tick), event.at(tick)))
        return events
