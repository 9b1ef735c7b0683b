"""SYSTEM messages that announce a change which is durable already."""

from __future__ import annotations

from store.base.errors import Unreachable
from store.base.ids import ConversationKind, kind_of
from store.messages.message import Message, ReservedMessage
from store.messages.outbox.places import ChannelTerms, Refusal, ReservationReason
from store.store import Store
from subscriptions.delivery.message_delivery import MessageDelivery

_ATTEMPTS = 10


async def send_announcement(store: Store, delivery: MessageDelivery, message: Message) -> None:
    """Store and deliver a message, unless it is stored or has a place. Two servers may send it: it is stored once.

    Nothing is sent to a conversation that is gone or has ended. Raises Unreachable.
    """
    conversation = message.conversation
    if await store.outbox.contains(conversation, message.id):
        # A housekeeper finishes it.
        return
    if await store.messages.find_in_conversation(conversation, message.id) is not None:
        return
    for _ in range(_ATTEMPTS):
        place = await _reserve(store, message)
        if isinstance(place, ReservedMessage):
            # If Redis loses the outbox, two servers may deliver it at once. Each looks for the event of the other.
            await delivery.send(place, recovered=True)
            return
        if place is not Refusal.NOT_LOADED:
            return
        in_channel = kind_of(conversation) is ConversationKind.CHANNEL
        if not await store.conversations.load((conversation,), with_members=not in_channel):
            return
    raise Unreachable("an announcement got no place")


async def _reserve(store: Store, message: Message) -> object:
    """Reserve a place without checking rights: the user may have left since the change."""
    match kind_of(message.conversation):
        case ConversationKind.CHANNEL:
            return await store.outbox.reserve_in_channel(message, ChannelTerms(), ReservationReason.ANNOUNCEMENT)
        case ConversationKind.THREAD:
            return await store.reply_places.reserve(message, None, ReservationReason.ANNOUNCEMENT)
        case _:
            return await store.outbox.reserve(message, ReservationReason.ANNOUNCEMENT)
