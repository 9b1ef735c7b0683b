"""Places of messages in channels whose first place is taken in MongoDB."""

from __future__ import annotations

from store.channels.channel_rights import ChannelRightsFinder
from store.conversations.conversation_store import ConversationStore
from store.messages.message import Message, ReservedMessage
from store.messages.outbox_store import ChannelTerms, OutboxStore, OutdatedRights, Refusal
from store.workspaces.permissions import Permission

_ATTEMPTS = 10


async def reserve_again_in_channel(
    conversations: ConversationStore, channel_rights: ChannelRightsFinder, outbox: OutboxStore, message: Message
) -> ReservedMessage | Refusal:
    """Reserve another place for a message in a channel.

    The sender's rights are judged again: a message takes no place under rights that have ended. Slow mode was passed
    with the first place.
    """
    channel, at_least = message.conversation, 0
    for _ in range(_ATTEMPTS):
        if not await conversations.load((channel,), with_members=False):
            return Refusal.NOT_A_MEMBER
        terms = ChannelTerms()
        if message.kind.countable:
            rights = await channel_rights.find(message.sender, channel, at_least)
            if rights is None or rights.channel.is_archived or not rights.may(Permission.SEND_MESSAGES):
                # They may have got the right since this process has read them.
                head = await conversations.find(channel)
                if head is None or head.policy_version <= at_least:
                    return Refusal.FORBIDDEN
                at_least = head.policy_version
                continue
            terms = ChannelTerms(rights.policy.version)
        place = await outbox.reserve_in_channel(message, terms, replaces_taken_place=True)
        if isinstance(place, OutdatedRights):
            at_least = place.version
        elif isinstance(place, ReservedMessage):
            return place
    return Refusal.NOT_LOADED
