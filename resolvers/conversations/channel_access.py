"""Access to channels: the rights of a viewer, and the messages that they may read there."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.errors import Archived, Forbidden
from resolvers.conversations.visibility import SeqRange, visible_ranges
from store.base.ids import ConversationId, UserId
from store.channels.channel_rights import ChannelRights
from store.conversations.conversation import Head
from store.store import Store
from store.workspaces.permissions import Permission


async def find_channel_rights(
    store: Store, viewer: UserId, heads: Sequence[Head]
) -> dict[ConversationId, tuple[ChannelRights, list[SeqRange]]]:
    """Return the rights of a viewer in the channels that they can see, with the ranges that they may read.

    Judged under the policy versions of the heads, or later ones. No round trip if everything is known.
    """
    if not heads:
        return {}
    found = await store.channel_rights.find_many(viewer, {head.conversation: head.policy_version for head in heads})
    return {
        head.conversation: (rights, await _readable_ranges(store, rights, head))
        for head in heads
        if (rights := found.get(head.conversation)) is not None
    }


def check_may_write(rights: ChannelRights, field: str = "conversationId") -> None:
    """Raise Archived or Forbidden unless a user who can see a channel may write there."""
    if rights.channel.is_archived:
        raise Archived("this channel is archived: it does not change any more", field=field)
    if not rights.may(Permission.SEND_MESSAGES):
        raise Forbidden("you may not write in this channel", field=field)


async def _readable_ranges(store: Store, rights: ChannelRights, head: Head) -> list[SeqRange]:
    return await history_ranges(store, rights, head) if rights.may(Permission.READ_HISTORY) else []


async def history_ranges(store: Store, rights: ChannelRights, head: Head) -> list[SeqRange]:
    """Return the ranges of a channel that are readable with READ_HISTORY, to a user who can see it."""
    if rights.channel.full_history:
        return [(1, None)]
    if rights.member is not None:
        return visible_ranges(rights.member, full_history=False)
    return [(await store.channel_rights.find_start(rights, head.seq), None)]
