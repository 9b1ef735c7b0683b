"""The context that all resolvers of one operation share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from strawberry.types import Info as StrawberryInfo

from resolvers.base.app import Confab
from resolvers.base.pages import PageSizes
from resolvers.users.callers import Caller
from schema.base.loaders import Loaders
from schema.base.viewers import TrackedViewer
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import RoleId, WorkspaceId
from store.messages.message import Message
from subscriptions.realtime.mailboxes import QueueBudget
from subscriptions.transport.engine import LiveConnection

_LOADED_BY_HEAD = (ConversationKind.GROUP, ConversationKind.CHANNEL, ConversationKind.THREAD)
"""Kinds of conversations whose objects are made from their heads."""


class ConversationObjects(Protocol):
    """Makes the GraphQL objects of one kind of conversation: implemented by the types in `CONVERSATION_TYPES`."""

    def load(self, context: Context, conversation: ConversationId) -> Any:
        """Return the conversation of one of the viewer's sessions, or a Deferred of it. Does not check access."""
        ...

    async def find(self, context: Context, conversation: ConversationId) -> Any:
        """Return a conversation that the viewer is or was in, or None."""
        ...


class ThreadObjects(Protocol):
    """Makes the GraphQL objects of threads: implemented by their type, which other types cannot import."""

    def load_of(self, context: Context, message: Message) -> Any:
        """Return the thread of a message that the viewer sees, or a Deferred of it; None if nobody has replied."""
        ...


class PresenceObjects(Protocol):
    """Makes the GraphQL objects of presences: implemented by their type, which users cannot import."""

    def load(self, context: Context, user: UserId) -> Any:
        """Return the presence of a user, or a Deferred of it; None if the viewer shares nothing with them."""
        ...


class WorkspaceObjects(Protocol):
    """Makes the GraphQL objects of workspaces: implemented by their type, which other types cannot import."""

    def load(self, context: Context, workspace: WorkspaceId) -> Any:
        """Return a workspace, or a Deferred of it. Does not check access."""
        ...

    def load_roles(self, context: Context, workspace: WorkspaceId, roles: Sequence[RoleId]) -> Any:
        """Return those roles that exist, in the given order, or a Deferred of them. Does not check access."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """One operation's context. One is made for every operation, and for every rendering of a subscription's event.

    `connection` is the WebSocket connection; None over HTTP. `queue_budget` bounds the events that wait in the
    mailboxes of that connection's subscriptions. `page_sizes` shortens pages of items that may be long.
    """

    app: Confab
    tracked_viewer: TrackedViewer
    request_id: str
    loaders: Loaders
    conversation_types: Mapping[ConversationKind, ConversationObjects]
    workspace_type: WorkspaceObjects
    thread_type: ThreadObjects
    presence_type: PresenceObjects
    connection: LiveConnection | None = None
    queue_budget: QueueBudget = field(default_factory=QueueBudget)
    page_sizes: PageSizes = field(default_factory=PageSizes)

    @property
    def caller(self) -> Caller | None:
        """The caller that the request's token names; None without a token."""
        return self.tracked_viewer.caller

    @property
    def viewer(self) -> UserId:
        """The id of the user who asks. Raises Unauthenticated without a token."""
        return self.tracked_viewer.id

    def load_conversation(self, conversation: ConversationId) -> Any:
        """Return the GraphQL object of one of the viewer's sessions' conversations, or a Deferred of it."""
        kind = kind_of(conversation)
        assert kind is not None
        return self.conversation_types[kind].load(self, conversation)

    def load_thread(self, message: Message) -> Any:
        """Return the thread of a message that the viewer sees, or a Deferred of it; None if nobody has replied."""
        return self.thread_type.load_of(self, message)

    def load_presence(self, user: UserId) -> Any:
        """Return the presence of a user, or a Deferred of it; None if the viewer shares nothing with them."""
        return self.presence_type.load(self, user)

    def load_workspace(self, workspace: WorkspaceId) -> Any:
        """Return the GraphQL object of a workspace, or a Deferred of it. Does not check access."""
        return self.workspace_type.load(self, workspace)

    def load_roles(self, workspace: WorkspaceId, roles: Sequence[RoleId]) -> Any:
        """Return the GraphQL objects of those roles of a workspace that exist, or a Deferred of them."""
        return self.workspace_type.load_roles(self, workspace, roles)

    def prefetch_conversations(self, conversations: Iterable[ConversationId]) -> asyncio.Future[None] | None:
        """Begin to read what `load_conversation` needs: see `BatchLoader.prefetch`."""
        return self.loaders.conversations.prefetch([c for c in conversations if kind_of(c) in _LOADED_BY_HEAD])

    async def find_conversation(self, conversation: str) -> Any:
        """Return the GraphQL object of a conversation that the viewer is or was in, or None."""
        kind = kind_of(conversation)
        if kind is None:
            return None
        return await self.conversation_types[kind].find(self, ConversationId(conversation))


Info = StrawberryInfo[Context, Any]
