"""SYSTEM messages that announce a change which is durable already."""

from __future__ import annotations

from store.base.errors import Unreachable
from store.messages.message import Message, ReservedMessage
from store.messages.outbox.places import Refusal, ReservationReason
from store.store import Store
from subscriptions.delivery.commit_stage import reserve_place
from subscriptions.delivery.message_delivery import MessageDelivery


async def send_announcement(store: Store, delivery: MessageDelivery, message: Message) -> None:
    """Store and deliver a message, unless it is stored or has a place. Two servers may send it: it is stored once.

    Rights are not checked: the user may have left since the change. Nothing is sent to a conversation that is gone or
    has ended. Raises Unreachable.
    """
    conversation = message.conversation
    if await store.outbox.contains(conversation, message.id):
        # A housekeeper finishes it.
        return
    if await store.messages.find_in_conversation(conversation, message.id) is not None:
        return
    place = await reserve_place(store, message, ReservationReason.ANNOUNCEMENT)
    if isinstance(place, ReservedMessage):
        # If Redis loses the outbox, two servers may deliver it at once. Each looks for the event of the other.
        await delivery.send(place, recovered=True)
    elif place is Refusal.NOT_LOADED:
        raise Unreachable("an announcement got no place")
