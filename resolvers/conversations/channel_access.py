"""Access to channels: the rights of a viewer, and the messages that they may read there."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.errors import Archived, Forbidden
from resolvers.conversations.visibility import SeqRange, above_floor
from store.base.ids import ConversationId, UserId
from store.channels.channel_rights import ChannelRights
from store.channels.sending.sending_rights import SendingRefusal, judge_writing
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
        head.conversation: (rights, await readable_ranges(store, rights, head))
        for head in heads
        if (rights := found.get(head.conversation)) is not None
    }


def check_may_write(rights: ChannelRights, field: str = "conversationId") -> None:
    """Raise Archived or Forbidden unless a user who can see a channel may write there."""
    refusal = judge_writing(rights)
    if refusal is not None:
        raise writing_error(refusal, field)


def writing_error(refusal: SendingRefusal, field: str = "conversationId") -> Archived | Forbidden:
    """Return the error for a user who may not write in a channel that they see."""
    if refusal is SendingRefusal.ARCHIVED:
        return Archived("this channel is archived: it does not change any more", field=field)
    return Forbidden("you may not write in this channel", field=field)


async def readable_ranges(store: Store, rights: ChannelRights, head: Head) -> list[SeqRange]:
    """Return the ranges of a channel that a user who can see it may read: none without READ_HISTORY."""
    return await history_ranges(store, rights, head) if rights.may(Permission.READ_HISTORY) else []


async def history_ranges(store: Store, rights: ChannelRights, head: Head) -> list[SeqRange]:
    """Return the ranges of a channel that are readable with READ_HISTORY, to a user who can see it.

    Expired messages are readable to nobody.
    """
    ranges = rights.whole_history.ranges
    if ranges is None:
        ranges = [(await store.channel_rights.find_start(rights, head.seq), None)]
    return above_floor(ranges, head.floor_seq)
