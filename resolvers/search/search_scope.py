"""The conversations that are searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.conversations.access import Access, access_conversations, no_conversation
from resolvers.conversations.visibility import is_visible
from resolvers.search.search_filter import SearchFilter
from resolvers.workspaces.access import no_workspace
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, is_in_workspace, is_workspace_id, workspace_of_channel
from store.search.searched_conversations import list_searched

MOST_CONVERSATIONS = 1_000
"""Most conversations that are searched if the search names none."""


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Conversations to search.

    Attributes:
        conversations: Their ids, in no particular order.
        accesses: The viewer's access to each, if the search names them; otherwise None: not known yet.
        is_whole: No conversation was left out.
    """

    conversations: Sequence[ConversationId]
    accesses: Mapping[ConversationId, Access] | None
    is_whole: bool

    def shows(self, access: Access, seq: int) -> bool:
        """Return whether the message with a seq may be a result.

        Former members find messages only in conversations that they name. Messages that came after the access was read
        are not shown, because the access may have ended before them.
        """
        is_searched = self.accesses is not None or access.is_current
        return is_searched and seq <= access.head.seq and is_visible(seq, access.ranges)


async def find_scope(app: Confab, viewer: UserId, given: SearchFilter) -> SearchScope:
    """Return the conversations that a filter names, otherwise those of the viewer.

    One round trip to Redis if everything is cached. Raises NotFound for a conversation or workspace that the viewer
    can't see, before anything else is read about it.
    """
    workspace = WorkspaceId(given.workspace) if given.workspace is not None else None
    if workspace is None:
        return await _find(app, viewer, given, None)
    scope, _ = await app.store.cache.gather(
        _find(app, viewer, given, workspace), _check_workspace(app, viewer, workspace)
    )
    return scope  # type: ignore[no-any-return]


async def _find(app: Confab, viewer: UserId, given: SearchFilter, workspace: WorkspaceId | None) -> SearchScope:
    if given.conversations is None:
        listed = await list_searched(app.store.sessions, viewer, MOST_CONVERSATIONS, workspace, given.in_threads)
        return SearchScope(listed.conversations, None, listed.is_whole)
    accesses: dict[ConversationId, Access] = {}
    for access in await access_conversations(app, viewer, given.conversations):
        if access is None:
            raise no_conversation("conversationIds")
        accesses[access.head.conversation] = access
    searched = [
        name
        for name, access in accesses.items()
        # The time of the answer must say nothing about messages in a channel without READ_HISTORY.
        if access.ranges and given.accepts_conversation(name) and (workspace is None or _is_inside(name, workspace))
    ]
    return SearchScope(searched, accesses, is_whole=True)


def _is_inside(conversation: ConversationId, workspace: WorkspaceId) -> bool:
    return is_in_workspace(conversation) and workspace_of_channel(conversation) == workspace


async def _check_workspace(app: Confab, viewer: UserId, workspace: WorkspaceId) -> None:
    """Raise NotFound unless the viewer is a member of a workspace."""
    version = await app.store.policies.current_version(workspace) if is_workspace_id(workspace) else None
    if version is None or await app.store.policies.find_member(workspace, viewer, version) is None:
        raise no_workspace()
