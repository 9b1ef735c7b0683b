"""The conversations that a user's searches go through if they name none."""

from __future__ import annotations

from typing import NamedTuple

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.sessions.session_store import SessionStore


class SearchedConversations(NamedTuple):
    """Conversations that a search goes through, in no particular order. `is_whole`: there are no others."""

    conversations: list[ConversationId]
    is_whole: bool


async def list_searched(
    sessions: SessionStore, user: UserId, limit: int, workspace: WorkspaceId | None, in_threads: bool | None
) -> SearchedConversations:
    """Return the conversations that a user has in lists, and the channels that they follow.

    Former members of a group may have it in a list. One round trip if the state is cached.

    Args:
        sessions: The user's sessions are there.
        user: The user.
        limit: Most conversations. If there are more, the most recently active ones are returned.
        workspace: Only those in this workspace; None: no restriction.
        in_threads: True: only threads; False: no threads; None: no restriction.
    """
    inside = "" if workspace is None else workspace[2:]
    threads = "" if in_threads is None else str(int(in_threads))
    answer = await sessions.run_on_channels(user, "list_searched", (limit, inside, threads))
    return SearchedConversations([ConversationId(name.decode()) for name in answer[2:]], bool(answer[1]))
