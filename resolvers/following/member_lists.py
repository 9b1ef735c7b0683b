"""Lists the members of channels, by name."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.cursors import decode_page_text
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.conversations.access import access_conversation
from resolvers.users.people import check_query
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import workspace_of_channel
from store.users.search_text import SearchQuery
from store.workspaces.member_search import FoundMember, MemberPage
from store.workspaces.policy import MemberFacts

READ_WHOLE = 2_000
"""Channels with at most this many members are read as a whole. At this size, in a workspace of 100,000 members, reading
in order of names costs about as many reads for a page of 50: see `_read_by_name`."""

ROW_UNITS = 2
"""Cost of each row that is read, in units of the viewer's work budget."""

_MOST_READ_WHOLE = 20_000
"""Channels with more members are never read as a whole: the ids would not fit into one command."""

_MOST_ROWS = 1_000
"""Most members of the workspace that are read at once."""


async def list_channel_members(
    app: Confab, viewer: UserId, channel: ConversationId, first: int | None, after: str | None, query: str | None
) -> Page[MemberFacts]:
    """Return a page of the members of a PRIVATE channel, or of the followers of another one, by name.

    Empty for viewers who can't see the channel: mutations return channels that they have hidden from their caller.
    query: the beginning of a word of the name or nickname, or of the id. Raises InvalidInput; RateLimited if the
    viewer's work budget has too few units for the rows to read.
    """
    size = check_page_size(first, "first")
    wanted = check_query(query) if query is not None else None
    position = decode_page_text("cm", after, "after")
    if await access_conversation(app, viewer, channel) is None:
        return Page([], has_next=False, has_previous=False)
    count = (await app.store.channel_follows.count_members([channel])).get(channel, 0)
    found = None
    if count > READ_WHOLE:
        most_rows = count if count <= _MOST_READ_WHOLE else None
        found = await _read_by_name(app, viewer, channel, wanted, position, size, most_rows)
    if found is None:
        found = await _read_whole(app, viewer, channel, wanted, position, size)
    edges = [Edge(member.facts, ("cm", member.position)) for member in found.found]
    return Page(edges, has_next=found.has_more, has_previous=position is not None)


async def _read_whole(
    app: Confab, viewer: UserId, channel: ConversationId, query: SearchQuery | None, after: str | None, size: int
) -> MemberPage:
    """Read all members of the channel, then their names."""
    members = await app.store.channel_member_lists.list_all(channel)
    app.work.take(viewer, ROW_UNITS * len(members))
    return await app.store.member_search.list_among(workspace_of_channel(channel), members, query, after, size)


async def _read_by_name(
    app: Confab,
    viewer: UserId,
    channel: ConversationId,
    query: SearchQuery | None,
    after: str | None,
    size: int,
    most_rows: int | None,
) -> MemberPage | None:
    """Read the members of the workspace in order of names, and keep those who are members of the channel.

    A page takes about (members of the workspace / members of the channel) * size rows, and more if few of them have
    names in this place. Returns None if it took more than `most_rows`.
    """
    workspace, found, rows, read = workspace_of_channel(channel), list[FoundMember](), 2 * (size + 1), 0
    while most_rows is None or read <= most_rows:
        part = await app.store.member_search.list(workspace, query, None, after, rows)
        app.work.take(viewer, ROW_UNITS * len(part.found))
        members = await app.store.channel_member_lists.select(channel, [each.facts.user for each in part.found])
        found += [each for each in part.found if each.facts.user in members]
        if len(found) > size or not part.has_more:
            return MemberPage(found[:size], len(found) > size)
        read += len(part.found)
        after, rows = part.found[-1].position, min(2 * rows, _MOST_ROWS)
    return None
