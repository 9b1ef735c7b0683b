"""Finds the recipients of noted messages, and writes an intent for each who has a device that takes pushes."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from resolvers.push.worker.recipients import SLICE, list_mentioned, list_slice
from store.base.ids import ConversationId, UserId
from store.push.noted_conversations import NotedMessages, TakenNote
from store.store import Store

_NOTES_AT_ONCE = 100
"""Conversations whose recipients are listed at the same time. Each has one slice in memory."""

_USERS_AT_ONCE = 2_000
"""Users of one round, over all conversations, so that a large channel does not delay private conversations."""

_UNKNOWN_MESSAGES = 20
"""Messages that are taken as new if Redis has lost the record of a conversation."""


@dataclass(slots=True)
class _Slice:
    """The next recipients of one conversation. is_last: there are no others."""

    note: TakenNote
    users: Sequence[UserId]
    is_last: bool


class PushExpansion:
    """Works through noted conversations, in rounds of a bounded number of users."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._notes: deque[TakenNote] = deque()

    async def expand_due(self) -> int:
        """List the recipients of all conversations that are due. Return the number of intents. Raises StoreError."""
        self._notes.clear()
        put = 0
        while True:
            room = _NOTES_AT_ONCE - len(self._notes)
            taken = await self._store.noted_conversations.take(room) if room else []
            self._notes.extend(taken)
            if not self._notes:
                return put
            put += await self._run_round()

    async def _run_round(self) -> int:
        """Put one slice of some conversations into intents."""
        slices: list[_Slice] = []
        count = 0
        while self._notes and count < _USERS_AT_ONCE:
            part = await self._next_slice(self._notes.popleft())
            slices.append(part)
            count += len(part.users)
        put = await self._put(slices)
        self._notes.extend(
            await self._store.noted_conversations.advance([part.note for part in slices if not part.is_last])
        )
        await self._store.noted_conversations.finish([part.note for part in slices if part.is_last])
        return put

    async def _next_slice(self, note: TakenNote) -> _Slice:
        store, conversation = self._store, note.conversation
        if not note.record.begun:
            note = replace(note, record=replace(note.record, begun=await self._newest_of(conversation)))
        begun, position = note.record.begun, note.record.position
        users = list(await list_slice(store, conversation, position))
        is_last = len(users) < SLICE
        if users:
            note = replace(note, record=replace(note.record, position=users[-1]))
        if position is None:
            mentioned = await list_mentioned(store, conversation, begun)
            users = list(dict.fromkeys((*sorted(mentioned), *users)))
        return _Slice(note, users, is_last)

    async def _put(self, slices: Sequence[_Slice]) -> int:
        """Put messages into the intents of users with devices. Make intents due that may show a recalled message."""
        store = self._store
        users = {user for part in slices if part.note.record.begun.newest for user in part.users}
        pushed = await self._select_pushed(sorted(users))
        puts = []
        for part in slices:
            begun = part.note.record.begun
            having = [user for user in part.users if user in pushed and user != begun.sender]
            if begun.newest and having:
                puts.append((part.note.conversation, begun.first, begun.newest, having))
            if begun.recalled:
                places = [(user, part.note.conversation) for user in part.users]
                await store.push_intents.touch(places, begun.recalled)
        return await store.push_intents.put(puts)

    async def _select_pushed(self, users: Sequence[UserId]) -> Collection[UserId]:
        found: set[UserId] = set()
        for start in range(0, len(users), SLICE):
            found.update(await self._store.devices.list_pushed(users[start : start + SLICE]))
        return found

    async def _newest_of(self, conversation: ConversationId) -> NotedMessages:
        """Return the newest messages of a conversation: Redis has lost which are new."""
        head = await self._store.conversations.find(conversation)
        newest = head.newest.seq if head is not None and head.newest is not None else 0
        return NotedMessages(max(1, newest - _UNKNOWN_MESSAGES + 1), newest) if newest else NotedMessages()
