"""The conversations that are searched if a search names none."""

from __future__ import annotations

from typing import NamedTuple

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.sessions.session_store import SessionStore


class SearchedConversations(NamedTuple):
    """Conversations to search, in no particular order. `is_whole`: none was left out."""

    conversations: list[ConversationId]
    is_whole: bool


async def list_searched(
    sessions: SessionStore, user: UserId, limit: int, workspace: WorkspaceId | None, in_threads: bool | None
) -> SearchedConversations:
    """Return the conversations in a user's session lists, and the channels that they follow.

    A group may be in the list of a former member. One round trip if the state is cached.

    Args:
        sessions: Store of the user's sessions.
        user: The user.
        limit: Most conversations to return. If there are more, the most recently active ones are returned.
        workspace: Only those in this workspace; None: no restriction.
        in_threads: True: only threads; False: no threads; None: no restriction.
    """
    inside = "" if workspace is None else workspace[2:]
    threads = "" if in_threads is None else str(int(in_threads))
    answer = await sessions.run_on_channels(user, "list_searched", (limit, inside, threads))
    return SearchedConversations([ConversationId(name.decode()) for name in answer[2:]], bool(answer[1]))
