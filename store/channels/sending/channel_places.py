"""Places of messages in channels: reserved under rights that are still valid at that moment."""

from __future__ import annotations

from dataclasses import replace

from store.channels.sending.sending_rights import SendingRefusal, SendingRights
from store.conversations.conversation_store import ConversationStore
from store.messages.message import Message, ReservedMessage
from store.messages.outbox.outbox_store import OutboxStore
from store.messages.outbox.places import ChannelTerms, OutdatedRights, Refusal, ReservationReason, SlowModeWait

_ATTEMPTS = 10


class ChannelPlaces:
    """Reserves places."""

    def __init__(self, conversations: ConversationStore, outbox: OutboxStore, rights: SendingRights) -> None:
        self._conversations = conversations
        self._outbox = outbox
        self._rights = rights

    def using(self, outbox: OutboxStore) -> ChannelPlaces:
        """Return an object that reserves places in another outbox."""
        return ChannelPlaces(self._conversations, outbox, self._rights)

    async def reserve(
        self, message: Message, reason: ReservationReason = ReservationReason.NEW_MESSAGE
    ) -> ReservedMessage | SendingRefusal | SlowModeWait | Refusal:
        """Reserve a place for a message.

        Rights are judged as this process knows them, which costs no round trip. The reservation refuses the message if
        they have changed since. Then they are judged again.

        Args:
            message: The message, without a place.
            reason: The reason why the message gets a place. Rights are always judged, so that no message gets a place
                under rights that have ended, except for SYSTEM messages that are not new. Slow mode applies only to new
                messages.

        Returns:
            The message with its place, or why it has none. Refusal.NOT_LOADED: rights change too often.
        """
        channel, at_least = message.conversation, 0
        for _ in range(_ATTEMPTS):
            terms = await self._find_terms(message, at_least, reason)
            if isinstance(terms, SendingRefusal):
                return terms
            place = await self._outbox.reserve_in_channel(message, terms, reason)
            if isinstance(place, OutdatedRights):
                at_least = place.version
            elif not isinstance(place, Refusal) or place is Refusal.ALREADY_RESERVED:
                return place
            elif not await self._conversations.load((channel,), with_members=False):
                return SendingRefusal.NOT_VISIBLE
        return Refusal.NOT_LOADED

    async def _find_terms(
        self, message: Message, at_least: int, reason: ReservationReason
    ) -> ChannelTerms | SendingRefusal:
        if reason.rights_were_checked and not message.kind.countable:
            # Announcements are written whatever has happened to the channel since.
            return ChannelTerms()
        terms = await self._rights.find_terms(message, at_least)
        return (
            replace(terms, slow_mode_ms=0) if reason.rights_were_checked and isinstance(terms, ChannelTerms) else terms
        )
