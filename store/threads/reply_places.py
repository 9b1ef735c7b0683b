"""Places of replies: reserved under rights that are valid at that moment. Opens threads that do not exist yet."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from store.base.clock import Clock
from store.base.ids import ConversationKind, kind_of, parse_thread
from store.channels.sending.sending_rights import SendingRefusal, SendingRights
from store.conversations.conversation_store import ConversationStore
from store.messages.message import Message, ReservedMessage
from store.messages.outbox.outbox_store import OutboxStore
from store.messages.outbox.places import ChannelTerms, OutdatedRights, Refusal, ReservationReason, SlowModeWait
from store.redis.single_flight import retry_until_true
from store.threads.thread_store import ThreadStore

_ATTEMPTS = 10

ReplyPlace = ReservedMessage | SendingRefusal | SlowModeWait | Refusal


class ReplyPlaces:
    """Reserves places in threads."""

    def __init__(
        self,
        threads: ThreadStore,
        conversations: ConversationStore,
        outbox: OutboxStore,
        rights: SendingRights,
        clock: Clock,
    ) -> None:
        self._threads = threads
        self._conversations = conversations
        self._outbox = outbox
        self._rights = rights
        self._clock = clock

    async def reserve(
        self, message: Message, parent: Message | None, reason: ReservationReason = ReservationReason.NEW_MESSAGE
    ) -> ReplyPlace:
        """Reserve a place for a reply, with the change of the followers that it causes, and for its copy if it has one.

        One round trip if everything is known. Waits while the thread is getting a follower who sends the message or is
        mentioned in it, or while somebody leaves the parent group. Raises Unreachable if that takes too long.

        Args:
            message: The reply, without a place.
            parent: The parent message; None: the thread exists already.
            reason: The reason why the message gets a place. Rights in a channel are always judged, except for SYSTEM
                messages that are not new.

        Returns:
            The reply with its place, or why it has none. SendingRefusal.NOT_VISIBLE: the thread or its parent
            conversation does not exist. Refusal.NOT_LOADED: rights or the cache change too often.
        """
        place: ReplyPlace = Refusal.BUSY

        async def attempt() -> bool:
            nonlocal place
            place = await self._try_to_reserve(message, parent, reason)
            return place is not Refusal.BUSY

        await retry_until_true(attempt, "a change of the thread or its group is not stored yet; please try again")
        return place

    async def _try_to_reserve(self, message: Message, parent: Message | None, reason: ReservationReason) -> ReplyPlace:
        by_parent_sender = parent is not None and parent.sender == message.sender
        at_least = 0
        for _ in range(_ATTEMPTS):
            terms = await self._find_terms(message, parent, at_least, reason)
            if isinstance(terms, SendingRefusal):
                return terms
            place = await self._outbox.reserve_reply(message, terms, reason, by_parent_sender=by_parent_sender)
            if isinstance(place, OutdatedRights):
                at_least = place.version
            elif place is not Refusal.NOT_LOADED:
                return place
            else:
                may_create = terms is None or terms.may_create_threads
                missing = await self._load_or_open(message, parent, may_create=may_create)
                if missing is not None:
                    return missing
        return Refusal.NOT_LOADED

    async def _find_terms(
        self, message: Message, parent: Message | None, at_least: int, reason: ReservationReason
    ) -> ChannelTerms | SendingRefusal | None:
        """Return the terms in a thread of a channel; None in other threads."""
        thread = parse_thread(message.conversation)
        assert thread is not None
        if kind_of(thread.parent) is not ConversationKind.CHANNEL:
            return None
        if reason.rights_were_checked and not message.kind.countable:
            return ChannelTerms()
        # The copy of a displaced reply has its place already.
        has_new_copy = message.is_broadcast and not reason.rights_were_checked
        terms = await self._rights.find_terms(message._replace(is_broadcast=has_new_copy), at_least, parent)
        if isinstance(terms, ChannelTerms) and not has_new_copy:
            return replace(terms, slow_mode_ms=0)
        return terms

    async def _load_or_open(
        self, message: Message, parent: Message | None, *, may_create: bool
    ) -> SendingRefusal | Refusal | None:
        """Load thread and parent conversation. Open the thread if there is none. Return why that is not possible."""
        thread, conversations = message.conversation, self._conversations
        place = parse_thread(thread)
        assert place is not None
        in_group = kind_of(place.parent) is ConversationKind.GROUP
        found = await asyncio.gather(
            conversations.load((thread,), with_members=True), conversations.load((place.parent,), with_members=in_group)
        )
        if not found[1] or (not found[0] and parent is None):
            return SendingRefusal.NOT_VISIBLE
        if not found[0] and parent is not None:
            if not message.kind.countable:
                return Refusal.NO_THREAD
            if not may_create:
                return Refusal.MAY_NOT_CREATE
            await self._threads.open(parent, message.sender, self._clock.now_ms())
        return None
