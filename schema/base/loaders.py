"""Batched reads of one operation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from resolvers.base.app import Confab
from resolvers.conversations.access import Access, FoundConversation, access_from, find_conversations, may_be_in
from resolvers.conversations.message_viewers import list_readers
from resolvers.conversations.visibility import is_visible
from resolvers.following.inherited_levels import find_inherited_levels
from resolvers.messages.history import list_newest_visible, newest_visible
from resolvers.messages.receipts import GroupProgress
from resolvers.presence.presences import find_presences
from resolvers.threads.threads import ThreadState, read_state
from resolvers.voice.voice_states import list_voice_states
from resolvers.workspaces.access import WorkspaceAccess, list_accesses
from resolvers.workspaces.revs import find_own_rev_before, list_revs_before
from schema.base.batch_loader import BatchLoader
from schema.base.viewers import TrackedViewer
from schema.compiler import then
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, kind_of, parse_thread
from store.base.workspace_ids import WorkspaceId
from store.blocks.block_rows import BlockRow
from store.conversations.conversation import Head
from store.messages.message import Message
from store.presence.shown_presence import ShownPresence
from store.receipts.receipt_pages import ReceiptQuery, ReceiptRows
from store.sessions.fields import NotificationLevel
from store.sessions.session import Session
from store.users.user import User
from store.voice.voice_state import VoiceState
from store.workspaces.policy import MemberFacts


class Loaders:
    """The data loaders of one operation. Each reads what several fields need in one batch."""

    def __init__(self, app: Confab, viewer: TrackedViewer) -> None:
        self._app = app
        self._viewer = viewer
        self.began_ms = app.store.clock.now_ms()
        """The time before anything was read."""
        self.watched_since: Mapping[ConversationId, int] = {}
        """Threads that the viewer watched before anything was read: the tick from which on the log has all events."""

    @cached_property
    def _viewer_id(self) -> UserId:
        return self._viewer.id

    # Loaders are created on first use, because most operations need only one or two of them.

    @cached_property
    def users(self) -> BatchLoader[UserId, User]:
        """Users by id; a placeholder for unknown ids."""
        return BatchLoader(self._load_users)

    @cached_property
    def presences(self) -> BatchLoader[UserId, ShownPresence | None]:
        """Presences of users as others see them; None for users who share nothing with the viewer."""
        return BatchLoader(self._load_presences)

    @cached_property
    def conversations(self) -> BatchLoader[ConversationId, FoundConversation | None]:
        """Conversations as the viewer may see them, with what decides the access; None if they were never in it."""
        return BatchLoader(self._load_conversations)

    @cached_property
    def heads(self) -> BatchLoader[ConversationId, Head | None]:
        """Heads as they are at present, without a check of access; None if there is no such conversation."""
        return BatchLoader(self._load_heads)

    @cached_property
    def sessions(self) -> BatchLoader[ConversationId, Session | None]:
        """The viewer's sessions by conversation."""
        return BatchLoader(self._load_sessions)

    @cached_property
    def channel_member_counts(self) -> BatchLoader[ConversationId, int]:
        """Numbers of members or followers by channel."""
        return BatchLoader(self._load_channel_member_counts)

    @cached_property
    def pin_counts(self) -> BatchLoader[ConversationId, int]:
        """Numbers of pinned messages by conversation, at present."""
        return BatchLoader(self._load_pin_counts)

    @cached_property
    def voice_states(self) -> BatchLoader[ConversationId, Sequence[VoiceState]]:
        """Voice states by channel, without a check of access."""
        return BatchLoader(self._load_voice_states)

    @cached_property
    def workspaces(self) -> BatchLoader[WorkspaceId, WorkspaceAccess | None]:
        """Workspaces with the viewer's membership; None if there is no such workspace."""
        return BatchLoader(self._load_workspaces)

    @cached_property
    def inherited_levels(self) -> BatchLoader[ConversationId, NotificationLevel]:
        """Notification levels of conversations for which the viewer has set none."""
        return BatchLoader(self._load_inherited_levels)

    @cached_property
    def revs(self) -> BatchLoader[WorkspaceId, int]:
        """Positions on the clocks of workspaces, before anything was read."""
        return BatchLoader(self._load_revs)

    @cached_property
    def _own_rev(self) -> asyncio.Future[int]:
        """A position on the viewer's own clock, before anything was read."""
        return asyncio.ensure_future(find_own_rev_before(self._app, self._viewer_id, self.began_ms))

    async def own_rev(self, thread: ConversationId) -> int:
        """Return a position on the viewer's own clock that the state of a thread includes."""
        return max(await self._own_rev, self.watched_since.get(thread, 0))

    @cached_property
    def thread_states(self) -> BatchLoader[ConversationId, ThreadState | None]:
        """States of threads of which the viewer may read only a part."""
        return BatchLoader(self._load_thread_states)

    @cached_property
    def _nicknames(self) -> BatchLoader[tuple[WorkspaceId, UserId], str | None]:
        return BatchLoader(self._load_nicknames)

    def nickname(self, workspace: WorkspaceId, user: UserId) -> str | Awaitable[str | None] | None:
        """Return the nickname of a user in a workspace; without waiting if this process has the member in memory."""
        facts = self._app.store.policies.known_member(workspace, user)
        return facts.nickname if facts is not None else self._nicknames.find((workspace, user))

    @cached_property
    def _messages_up_to(self) -> BatchLoader[tuple[ConversationId, int], Message | None]:
        return BatchLoader(self._load_messages_up_to)

    @cached_property
    def progress(self) -> BatchLoader[ConversationId, GroupProgress]:
        """The delivered and read positions of a conversation's recipients."""
        return BatchLoader(self._load_progress)

    @cached_property
    def workspace_members(self) -> BatchLoader[tuple[WorkspaceId, UserId], MemberFacts | None]:
        """Members of workspaces; None if the user is not a member."""
        return BatchLoader(self._load_workspace_members)

    @cached_property
    def receipts(self) -> BatchLoader[ReceiptQuery, ReceiptRows]:
        """Pages of receipts."""
        return BatchLoader(self._load_receipts)

    @cached_property
    def replies(self) -> BatchLoader[tuple[ConversationId, MessageId], Message | None]:
        """Replies by thread and id. Access is not checked."""
        return BatchLoader(self._load_replies)

    @cached_property
    def own_reactions(self) -> BatchLoader[tuple[Message, str], bool]:
        """True for each message and emoji with which the viewer reacted."""
        return BatchLoader(self._load_own_reactions)

    @cached_property
    def messages(self) -> BatchLoader[tuple[ConversationId, int], Message | None]:
        """Messages by conversation and seq, without a check of access."""
        return BatchLoader(self._load_messages)

    @cached_property
    def withheld_messages(self) -> BatchLoader[tuple[ConversationId, int], Message | None]:
        """Messages by conversation and seq, for a viewer who may not read them any more."""
        return BatchLoader(self._load_withheld_messages)

    @cached_property
    def blocks(self) -> BatchLoader[UserId, BlockRow]:
        """The users that the viewer has blocked, by the viewer."""
        return BatchLoader(self._load_blocks)

    def user(self, user: UserId) -> User | Awaitable[User]:
        """Return a user; without waiting if this process has the user in memory."""
        return self._app.store.users.find_shown(user) or self.users.find(user)

    def prefetch_users(self, users: Iterable[UserId]) -> asyncio.Future[None] | None:
        """Begin to read the users that this process does not have in memory: see `BatchLoader.prefetch`."""
        find_shown = self._app.store.users.find_shown
        return self.users.prefetch([user for user in users if find_shown(user) is None])

    async def _load_voice_states(self, channels: list[ConversationId]) -> list[Sequence[VoiceState]]:
        return await list_voice_states(self._app, channels)

    async def _load_users(self, users: list[UserId]) -> list[User]:
        return await self._app.store.users.list_shown(users)

    async def _load_blocks(self, users: list[UserId]) -> list[BlockRow]:
        return [await self._app.store.blocks.read(user) for user in users]

    async def _load_presences(self, users: list[UserId]) -> list[ShownPresence | None]:
        return await find_presences(self._app, self._viewer.id, users, in_event=self._viewer.is_shared)

    async def head(self, conversation: ConversationId) -> Head | None:
        """Return the head of a conversation as the viewer may see it. None if the viewer never was in it."""
        found = await self.conversations.load(conversation)
        return found.head if found is not None else None

    async def access(self, conversation: ConversationId) -> Access | None:
        """Return the viewer's access to a conversation; None if the viewer has no access."""
        found = await self.conversations.load(conversation) if may_be_in(self._viewer.id, conversation) else None
        return access_from(found) if found is not None else None

    async def _may_all_read(
        self, conversation: ConversationId, seqs: Sequence[int], *, without_gap: bool = False
    ) -> bool:
        """Return True if viewers who share the result may read the messages at some seqs. Not for threads.

        without_gap: And all messages after the first of these.
        """
        store = self._app.store
        if kind_of(conversation) is ConversationKind.CHANNEL:
            may_read = [self._viewer.may_read_in(store.channel_rights, conversation, seq) for seq in seqs]
            return all(may_read) and not (without_gap and store.channel_rights.may_have_gaps(conversation))
        viewers = await list_readers(store, conversation, seqs, without_gap=without_gap)
        return self._viewer.is_among(frozenset(viewers))

    async def shared_thread(self, thread: ConversationId) -> Access | None:
        """Return the access to a thread whose messages viewers who share the result may see. None if it is empty."""
        place, head = parse_thread(thread), await self.heads.load(thread)
        if place is None or head is None or head.newest is None:
            return None
        if await self._may_all_read(place.parent, [place.seq], without_gap=True):
            return Access(head, [(1, None)])
        # They may read a part of it.
        return await self.access(thread)

    def readable_message(self, conversation: ConversationId, seq: int) -> Message | Awaitable[Message | None] | None:
        """Return the message at a seq if the viewer may read it, or an awaitable of it."""
        if self._viewer.is_shared:
            return asyncio.ensure_future(self._find_readable(conversation, seq))
        if not may_be_in(self._viewer.id, conversation):
            return None

        def message_of(found: FoundConversation | None) -> Message | Awaitable[Message | None] | None:
            access = access_from(found) if found is not None else None
            may_read = access is not None and is_visible(seq, access.ranges)
            return self.messages.find((conversation, seq)) if may_read else None

        return then(self.conversations.find(conversation), message_of)

    async def _find_readable(self, conversation: ConversationId, seq: int) -> Message | None:
        place = parse_thread(conversation)
        head = await self.heads.load(conversation if place is None else place.parent)
        if head is None or (seq if place is None else place.seq) <= head.floor_seq:
            return None
        if place is None:
            may_read = await self._may_all_read(conversation, [seq])
            return await self.messages.load((conversation, seq)) if may_read else None
        message = await self.messages.load((conversation, seq))
        if message is None or not await self._may_all_read(place.parent, [place.seq, message.parent_seq]):
            return None
        return message

    def prefetch_readable(self, places: Sequence[tuple[ConversationId, int]]) -> asyncio.Future[Any] | None:
        """Begin to read what `readable_message` needs: see `BatchLoader.prefetch`."""
        if self._viewer.is_shared:
            return None
        # Both are read at the same time. `readable_message` checks the access before it returns a message.
        reads = [self.conversations.prefetch([c for c, _ in places]), self.messages.prefetch(places)]
        pending = [read for read in reads if read is not None]
        return asyncio.gather(*pending) if len(pending) > 1 else next(iter(pending), None)

    async def _load_conversations(self, conversations: list[ConversationId]) -> list[FoundConversation | None]:
        found = await find_conversations(self._app.store, self._viewer.id, conversations)
        return [found.get(conversation) for conversation in conversations]

    async def _load_heads(self, conversations: list[ConversationId]) -> list[Head | None]:
        found = await self._app.store.conversations.find_many(conversations)
        return [found.get(conversation) for conversation in conversations]

    async def _load_revs(self, workspaces: list[WorkspaceId]) -> list[int]:
        return await list_revs_before(self._app, workspaces, self.began_ms)

    async def _load_withheld_messages(self, places: list[tuple[ConversationId, int]]) -> list[Message | None]:
        found = await self._app.store.messages.find_many(places)
        return [found[place].withheld() if place in found else None for place in places]

    async def _load_thread_states(self, threads: list[ConversationId]) -> list[ThreadState | None]:
        accesses = await asyncio.gather(*map(self.access, threads))
        states = await asyncio.gather(
            *(read_state(self._app.store, access) for access in accesses if access is not None)
        )
        found = {access.head.conversation: state for access, state in zip(filter(None, accesses), states, strict=True)}
        return [found.get(thread) for thread in threads]

    async def _load_inherited_levels(self, conversations: list[ConversationId]) -> list[NotificationLevel]:
        found = await find_inherited_levels(self._app, self._viewer.id, conversations)
        return [found[conversation] for conversation in conversations]

    async def _load_workspaces(self, workspaces: list[WorkspaceId]) -> list[WorkspaceAccess | None]:
        return await list_accesses(self._app, self._viewer.id, workspaces)

    async def _load_nicknames(self, members: list[tuple[WorkspaceId, UserId]]) -> list[str | None]:
        nicknames: dict[tuple[WorkspaceId, UserId], str | None] = {}
        for workspace in dict.fromkeys(workspace for workspace, _ in members):
            users = [user for each, user in members if each == workspace]
            found = await self._app.store.policies.find_members(workspace, users)
            nicknames |= {(workspace, user): facts.nickname for user, facts in found.items()}
        return [nicknames.get(member) for member in members]

    async def _load_channel_member_counts(self, channels: list[ConversationId]) -> list[int]:
        found = await self._app.store.channel_follows.count_members(channels)
        return [found.get(channel, 0) for channel in channels]

    async def _load_pin_counts(self, conversations: list[ConversationId]) -> list[int]:
        found = await self._app.store.pins.find_many(conversations)
        return [len(found[conversation].items) for conversation in conversations]

    async def _load_sessions(self, conversations: list[ConversationId]) -> list[Session | None]:
        store, viewer = self._app.store, self._viewer.id
        sessions = await store.channel_sessions.complete(viewer, await store.sessions.find_each(viewer, conversations))
        found = {session.conversation: session for session in sessions}
        return [found.get(conversation) for conversation in conversations]

    def last_message(self, conversation: ConversationId) -> Awaitable[Message | None] | None:
        """Return the newest message of a conversation that the viewer may read, or an awaitable of it."""
        if not may_be_in(self._viewer_id, conversation):
            return None
        return then(self.conversations.find(conversation), self._newest_message)

    def _newest_message(self, found: FoundConversation | None) -> Message | Awaitable[Message | None] | None:
        access = access_from(found) if found is not None else None
        newest = newest_visible(access) if access is not None else None
        if access is not None and isinstance(newest, int):
            return self._messages_up_to.find((access.head.conversation, newest))
        return cast(Message | None, newest)

    def prefetch_last_messages(self, conversations: Iterable[ConversationId]) -> asyncio.Future[None] | None:
        """Begin to read what `last_message` needs: see `BatchLoader.prefetch`."""
        return self.conversations.prefetch(conversations)

    async def _load_messages_up_to(self, places: list[tuple[ConversationId, int]]) -> list[Message | None]:
        accesses = [await self.access(conversation) for conversation, _ in places]
        found = [(access, seq) for access, (_, seq) in zip(accesses, places, strict=True) if access is not None]
        return await list_newest_visible(self._app, found)

    async def _load_progress(self, conversations: list[ConversationId]) -> list[GroupProgress]:
        found = await self._app.store.receipts.list_recipients(conversations)
        return [GroupProgress(found.get(conversation, ()), self._viewer.id) for conversation in conversations]

    async def _load_workspace_members(self, members: list[tuple[WorkspaceId, UserId]]) -> list[MemberFacts | None]:
        by_workspace: dict[WorkspaceId, list[UserId]] = {}
        for workspace, user in members:
            by_workspace.setdefault(workspace, []).append(user)
        policies = self._app.store.policies
        found = await asyncio.gather(*(policies.find_members(w, users) for w, users in by_workspace.items()))
        facts = dict(zip(by_workspace, found, strict=True))
        return [facts[workspace].get(user) for workspace, user in members]

    async def _load_receipts(self, queries: list[ReceiptQuery]) -> list[ReceiptRows]:
        found = await self._app.store.receipts.read_receipts(queries)
        return [found[query] for query in queries]

    async def _load_own_reactions(self, reactions: list[tuple[Message, str]]) -> list[bool]:
        viewer = self._viewer.id
        found = await self._app.store.reactions.find_reacted([(*reaction, viewer) for reaction in reactions])
        return [(message.id, emoji, viewer) in found for message, emoji in reactions]

    async def _load_replies(self, replies: list[tuple[ConversationId, MessageId]]) -> list[Message | None]:
        found = await self._app.store.copies.find_replies(replies)
        return [found.get(reply) for reply in replies]

    async def _load_messages(self, places: list[tuple[ConversationId, int]]) -> list[Message | None]:
        channels = {c for c, _ in places if kind_of(c) is ConversationKind.CHANNEL}
        if not channels or self._viewer.is_shared:
            found = await self._app.store.messages.find_many(places)
        else:
            heads = {channel: head for channel in channels if (head := await self.head(channel)) is not None}
            found = await self._app.store.newest_messages.find_many(heads, places)
        return [found.get(place) for place in places]
