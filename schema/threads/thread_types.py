"""The GraphQL type of threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from operator import attrgetter
from typing import Any

import strawberry

from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.conversations.access import Access, FoundConversation, access_from, no_conversation
from resolvers.threads.threads import (
    NO_REPLIES,
    ThreadState,
    find_thread,
    sees_all_replies,
    thread_of,
    title_of,
    whole_state,
)
from resolvers.users.callers import CallerRole
from resolvers.workspaces.revs import read_with_rev
from schema.base.context import Context, Info
from schema.base.nodes import Node, PageInfo
from schema.base.scalars import DateTime, Timestamp
from schema.compiler import reads, then
from schema.conversations.conversation_types import Conversation, ConversationType, load_session
from schema.messages.message_types import MessageType, message_from
from schema.sessions.session_types import SessionType, load_last_message
from schema.users.user_types import UserType, load_user
from store.base.ids import ConversationId, ConversationKind, parse_thread, thread_id
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.conversations.conversation import Head
from store.messages.message import Message


@strawberry.type(name="Thread")
class ThreadType(Conversation, Node):
    access: strawberry.Private[Access]
    known_parent: strawberry.Private[Message | None] = None
    known_rev: strawberry.Private[int | None] = None
    """A position that the state includes; None: not known."""
    id: strawberry.ID = reads("conversation_id")

    @classmethod
    def load(cls, context: Context, conversation: ConversationId) -> Any:
        """Return a Deferred of a thread in which the viewer has a session."""

        def thread_of_session(found: FoundConversation | None) -> ThreadType | Awaitable[ThreadType]:
            access = access_from(found) if found is not None else None
            if access is not None:
                return thread_from(access)
            if context.caller is None or context.caller.role is not CallerRole.SERVICE:
                # The session is INVALID, because the viewer can't see the channel any more.
                return thread_from(Access(_empty_head(conversation), []))
            # Services write SYSTEM messages without access.
            return asyncio.ensure_future(_load_for_service(context, conversation))

        return then(context.loaders.conversations.find(conversation), thread_of_session)

    @classmethod
    def load_of(cls, context: Context, message: Message) -> Any:
        """Return the thread of a message that the viewer sees, or a Deferred of it; None if nobody has replied."""
        thread = thread_of(message)
        if thread is None:
            return None
        is_parent = thread != message.conversation and message.broadcast_of is None
        parent = message if is_parent else None
        if context.tracked_viewer.is_shared:
            shared = asyncio.ensure_future(context.loaders.shared_thread(thread))
            return then(shared, partial(_thread_or_none, parent=parent))
        found = context.loaders.conversations.find(thread)
        return then(found, lambda each: _thread_or_none(access_from(each) if each is not None else None, parent))

    @classmethod
    async def find(cls, context: Context, conversation: ConversationId) -> ThreadType | None:
        """Return a thread, or None if the viewer can't see it."""
        app, viewer = context.app, context.viewer
        if is_in_workspace(conversation):
            workspace = workspace_of_channel(conversation)
            found = await read_with_rev(app, workspace, lambda: find_thread(app, viewer, conversation))
            return thread_from(found[0], rev=found[1]) if found is not None else None
        access = await find_thread(app, viewer, conversation)
        return thread_from(access) if access is not None else None

    def load_title(self, context: Context) -> Any:
        return then(self._load_parent(context), title_of)

    @strawberry.field
    def last_message(self, info: Info) -> MessageType | None:
        newest = self.access.head.newest
        if newest is not None and sees_all_replies(self.access):
            return message_from(newest)
        return load_last_message(info.context, self.conversation_id)

    @strawberry.field
    def parent(self, info: Info) -> MessageType:
        context = info.context

        def shown_or_withheld(found: Message | None) -> Any:
            if found is not None:
                return message_from(found)
            # The viewer has a session of the thread, and can't see its conversation any more.
            place = parse_thread(self.conversation_id)
            assert place is not None
            return then(context.loaders.withheld_messages.find((place.parent, place.seq)), _existing_parent)

        return then(self._load_parent(context), shown_or_withheld)

    @strawberry.field(description="Replies that are not recalled.")
    def reply_count(self, info: Info) -> int:
        return then(self._load_state(info.context), attrgetter("reply_count"))

    @strawberry.field
    def participant_count(self, info: Info) -> int:
        return then(self._load_state(info.context), attrgetter("participant_count"))

    @strawberry.field(description="People who replied, the latest first; at most 50.")
    def participants(self, info: Info, first: int | None = 5) -> list[UserType]:
        context, size = info.context, check_page_size(first, "first")
        return then(
            self._load_state(context), lambda state: [load_user(context, user) for user in state.participants[:size]]
        )

    @strawberry.field
    def last_reply_at(self, info: Info) -> DateTime | None:
        return then(self._load_state(info.context), attrgetter("last_reply_at_ms"))

    @strawberry.field
    def follower_count(self, info: Info) -> int:
        return then(self._load_state(info.context), attrgetter("follower_count"))

    @strawberry.field
    def viewer_follows(self, info: Info) -> bool:
        return then(
            info.context.loaders.sessions.load(self.conversation_id),
            lambda session: session is not None and session.follows,
        )

    @strawberry.field
    def is_locked(self) -> bool:
        thread = self.access.head.thread
        # Former members see the thread as it was when they left. Nothing tells whether it was locked.
        return self.access.is_current and thread is not None and thread.is_locked

    @strawberry.field
    def session(self, info: Info) -> SessionType | None:
        return load_session(info.context, self.conversation_id)

    @strawberry.field
    def rev(self, info: Info) -> Timestamp:
        """A position on the clock of the thread's events that includes all of this."""
        loaders: Any = info.context.loaders
        if self.known_rev is not None:
            return Timestamp(self.known_rev)
        # The clock of a workspace tells those who can't see the thread when others are active.
        if self.access.ranges and is_in_workspace(self.conversation_id):
            in_workspace: Any = loaders.revs.find(workspace_of_channel(self.conversation_id))
            return in_workspace
        own: Any = loaders.own_rev(self.conversation_id)
        return own

    def _load_parent(self, context: Context) -> Any:
        """Return the parent message, or a future of it; None if the viewer can't see it."""
        if self.known_parent is not None:
            return self.known_parent
        if not self.access.ranges:
            return None
        place = parse_thread(self.conversation_id)
        assert place is not None
        return context.loaders.messages.find((place.parent, place.seq))

    def _load_state(self, context: Context) -> ThreadState | Any:
        """Return what the viewer sees of the replies, or a future of it."""
        if sees_all_replies(self.access):
            return whole_state(self.access.head)
        # Rights may have ended since the thread was read.
        found = context.loaders.thread_states.find(self.conversation_id)
        return then(found, lambda state: state if state is not None else NO_REPLIES)


def thread_from(access: Access, parent: Message | None = None, rev: int | None = None) -> ThreadType:
    """Return the GraphQL object of a thread, as the viewer with this access sees it.

    `parent`: the parent message, if it is known. `rev`: a position before `access` was read, if it is known.
    """
    return ThreadType(
        access=access,
        known_parent=parent,
        known_rev=rev,
        conversation_id=access.head.conversation,
        type=ConversationType.THREAD,
    )


def unreadable_thread(parent: Message) -> ThreadType:
    """Return the thread of a message without anything in it, for a viewer who may not read it any more."""
    return thread_from(Access(_empty_head(thread_id(parent.conversation, parent.seq)), []), parent)


def _empty_head(thread: ConversationId) -> Head:
    return Head(thread, ConversationKind.THREAD, 0, None, 0, None)


def _thread_or_none(access: Access | None, parent: Message | None) -> ThreadType | None:
    return thread_from(access, parent) if access is not None else None


def _existing_parent(parent: Message | None) -> MessageType:
    if parent is None:
        # The channel is being removed.
        raise no_conversation()
    return message_from(parent)


async def _load_for_service(context: Context, thread: ConversationId) -> ThreadType:
    """Return a thread as a service sees it that has written there."""
    head: Head | None = await context.loaders.heads.load(thread)
    if head is None:
        raise no_conversation()
    return thread_from(Access(head, [(1, None)]))


@strawberry.type
class ThreadEdge:
    edge: strawberry.Private[Edge[Access]]
    node: ThreadType
    cursor: str = reads("edge.cursor")


@strawberry.type
class ThreadConnection:
    edges: list[ThreadEdge]
    page_info: PageInfo


def thread_connection(page: Page[Access]) -> ThreadConnection:
    """Return a page of threads as a Relay connection."""
    return ThreadConnection(
        edges=[ThreadEdge(edge=edge, node=thread_from(edge.node)) for edge in page.edges],
        page_info=PageInfo(page=page),
    )
