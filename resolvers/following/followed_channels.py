"""The list of channels that a user follows."""

from __future__ import annotations

from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.conversations.access import Access, access_conversations
from resolvers.workspaces.channels import CURSOR, decode_order, order_of
from store.base.ids import UserId
from store.base.workspace_ids import is_workspace_id
from store.channels.channel_sessions import with_head
from store.sessions.session import Session
from store.sessions.session_lists import followed_list


class FollowedChannel(NamedTuple):
    """A channel that a user follows, with their session there."""

    access: Access
    session: Session


async def list_followed(
    app: Confab, user: UserId, workspace: str, first: int | None, after: str | None, *, unread_only: bool
) -> Page[FollowedChannel]:
    """Return a page of the channels that a member follows and can see, by category and position.

    unread_only: only those with unread messages. Two round trips to Redis if everything is known. Empty for users who
    are not members. Raises InvalidInput.
    """
    size = check_page_size(first, "first")
    start = decode_order(after) if after is not None else None
    if not is_workspace_id(workspace):
        return Page([], has_next=False, has_previous=start is not None)
    snapshot = await app.store.sessions.list_followed(user, followed_list(workspace))
    sessions = {session.conversation: session for session in snapshot.sessions}
    accesses = await access_conversations(app, user, list(sessions))
    found = []
    for access in accesses:
        if access is None or access.rights is None:
            continue
        channel = FollowedChannel(access, with_head(sessions[access.head.conversation], access.head))
        if not unread_only or channel.session.unread_count:
            found.append((order_of(access.rights), channel))
    waiting = sorted((pair for pair in found if start is None or pair[0] > start), key=lambda pair: pair[0])
    edges = [Edge(channel, (CURSOR, *place)) for place, channel in waiting[:size]]
    return Page(edges, has_next=len(waiting) > size, has_previous=start is not None)
