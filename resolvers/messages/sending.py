"""Sending messages."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.checks import check_content, check_key, check_sub_biz
from resolvers.base.errors import (
    Archived,
    Blocked,
    ConfabError,
    Forbidden,
    InvalidInput,
    NotAMember,
    NotFound,
    RateLimited,
    Rejected,
    SlowModeActive,
    Unavailable,
)
from resolvers.base.metadata import encode_metadata
from resolvers.base.rate_limits import check_rate
from resolvers.blocks.checks import blocked_error, check_not_blocked_by
from resolvers.content_rules.hook_judging import ask_hook
from resolvers.content_rules.rejections import time_out_sender
from resolvers.conversations.access import left_conversation, no_conversation
from resolvers.messages.attaching import check_attachments, claim_files
from resolvers.messages.channel_sending import reserve_in_channel
from resolvers.messages.given_embeds import check_given_embeds
from resolvers.messages.idempotency import check_same_input, claim_message, wait_for_duplicate
from resolvers.messages.mention_errors import mentioned_outsider
from resolvers.messages.new_messages import (
    NewMessage,
    check_mentioned_roles,
    check_mentions,
    find_reply_target,
    input_digest,
    resolve_destination,
)
from resolvers.messages.replying import Destination, reserve_in_thread
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, kind_of, parse_private, without_thread
from store.messages.idempotency_claims import Claim
from store.messages.message import Message, MessageKind, ReservedMessage
from store.messages.outbox.places import Refusal
from store.messages.system_events import CUSTOM
from store.previews.embed import Embed
from store.previews.message_embeds import NO_EMBEDS, MessageEmbeds
from store.redis.request_scope import discard_request_cache
from store.redis.single_flight import retry_until_true
from store.sessions.session import Session, invalid_session
from store.sessions.session_lists import is_channel
from store.store import Store
from store.users.rate_limits import RateLimit

_ATTEMPTS = 4

_NOT_STORED = (
    InvalidInput,
    NotFound,
    NotAMember,
    Forbidden,
    RateLimited,
    SlowModeActive,
    Archived,
    Blocked,
    Rejected,
)
"""Errors of messages that are certainly not stored, so that their keys can be used again."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """A stored message. `session`: the sender's with this message, if it is known. `replayed`: it was sent before."""

    message: Message
    session: Session | None
    replayed: bool


async def send_message(app: Confab, sender: UserId, new: NewMessage, *, by_service: bool = False) -> SendResult:
    """Send a message. It is durable when this returns. Sending reads the conversation, unless the message is SYSTEM.

    The same key with the same input returns the original message. `by_service`: the caller has role service, which may
    send SYSTEM messages to any conversation, and embeds.

    Raises:
        InvalidInput, NotFound, NotAMember, Forbidden, IdempotencyConflict, RateLimited, SlowModeActive, Archived,
            Rejected, Blocked: Nothing was stored.
        Unavailable, Unreachable: The message may have been stored. Sending it again with the same key is safe.
    """
    check_content(new.content, may_be_empty=bool(new.attachments))
    check_attachments(new)
    if new.kind is MessageKind.SYSTEM and not by_service:
        raise InvalidInput(
            "only callers with role service may send SYSTEM messages; choose another contentType", field="contentType"
        )
    check_key(new.key)
    check_sub_biz(new.sub_biz)
    metadata = encode_metadata(new.metadata)
    embeds = await check_given_embeds(app, sender, new.embeds, by_service=by_service) if new.embeds else ()
    if new.key is None:
        check_rate(app.store.rate_limits.sends, sender)
    destination = await resolve_destination(app, sender, new)
    conversation = destination.conversation
    mentions = check_mentions(conversation, new)
    mentioned_roles = check_mentioned_roles(conversation, new)
    # Checked before the reservation, which would keep the message until MongoDB has a primary again, when its sender
    # may no longer want it.
    app.store.mongo.require_primary()
    reply_to = await find_reply_target(app, sender, conversation, new)
    message = Message(
        id=MessageId(app.store.ids.next_pair() if new.is_broadcast else app.store.ids.next()),
        conversation=conversation,
        sender=sender,
        kind=new.kind,
        text=new.content,
        mentions=mentions,
        mentions_all=new.mention_all,
        mentioned_roles=mentioned_roles,
        reply_to=reply_to,
        key=new.key,
        digest=input_digest(conversation, new, mentions, metadata) if new.key else None,
        metadata=metadata,
        system_event=CUSTOM if new.kind is MessageKind.SYSTEM else None,
        is_broadcast=new.is_broadcast,
        is_silent=new.is_silent,
        embeds=first_embeds(app, conversation, new, embeds),
    )
    return await send_once(app, message, new, destination, app.store.rate_limits.sends)


async def send_once(
    app: Confab, message: Message, new: NewMessage, destination: Destination, rate: RateLimit | None
) -> SendResult:
    """Send a message that was checked, unless it was sent before with the same key. Raises like `send_message`.

    rate: Counts messages with a key that were not sent before; None: counted already.
    """
    try:
        return await _send_unless_sent(app, message, new, destination, rate)
    except Rejected as error:
        # Only now: earlier, other messages to the conversation would have waited for it.
        if error.times_out_sender:
            await time_out_sender(app, message.sender, message.conversation)
        raise


async def _send_unless_sent(
    app: Confab, message: Message, new: NewMessage, destination: Destination, rate: RateLimit | None
) -> SendResult:
    if message.key is None or message.digest is None:
        return await _send(app, await ask_hook(app, message), new, destination)
    claim = Claim(message.id, message.conversation, message.digest)
    claimed = await claim_message(app, message, claim)
    if isinstance(claimed, Message):
        await app.delivery.complete_copy(claimed)
        return SendResult(claimed, await find_sender_session(app, claimed), replayed=True)
    try:
        if rate is not None:
            # Checked here only: replays are not limited.
            check_rate(rate, message.sender)
        judged = await _ask_hook(app, message._replace(id=claimed), claim)
        return await _send(app, judged, new, destination)
    except _NOT_STORED:
        await app.store.claims.release(message.sender, message.key, claim)
        raise


async def _ask_hook(app: Confab, message: Message, claim: Claim) -> Message:
    """Ask the external hook about a message with a key, which can be used again if the hook does not answer."""
    try:
        return await ask_hook(app, message)
    except Unavailable:
        await app.store.claims.release(message.sender, message.key or "", claim)
        raise


def first_embeds(app: Confab, conversation: ConversationId, new: NewMessage, given: tuple[Embed, ...]) -> MessageEmbeds:
    """Return the embeds of a new message, before its links are fetched."""
    has_previews = new.kind.countable and not new.suppresses_embeds
    due_ms = app.previews.due_ms(conversation, new.content) if has_previews else None
    if not given and due_ms is None and not new.suppresses_embeds:
        return NO_EMBEDS
    return MessageEmbeds(given, 0, due_ms, new.suppresses_embeds)


def make_service_session(message: Message) -> Session | None:
    """Return an INVALID session for a service that wrote into a conversation without being a member.

    None for a member, who has a stored session or gets one.
    """
    people = parse_private(message.conversation)
    if message.kind is not MessageKind.SYSTEM or (people is not None and message.sender in people[:2]):
        return None
    return invalid_session(message.sender, message.conversation, message.seq)


def has_message(session: Session, message: Message) -> bool:
    """Return whether the session of a message's sender includes the message."""
    if not message.kind.countable:
        return is_channel(message.conversation) or session.write_seq >= message.seq
    if is_channel(message.conversation):
        return session.acknowledged_seq >= message.seq
    return min(session.write_seq, session.read_seq) >= message.seq


async def find_sender_session(app: Confab, message: Message) -> Session | None:
    """Return the sender's session with a durable message applied to it; None if there is none, as for a webhook.

    A cached state may lack the message: the server that stored it may have died before its fan-out, or Redis did not
    answer then. So the message is delivered once more if the session lacks it.
    """
    if message.is_from_webhook:
        return None
    found = await _find_applied(app, message)
    if found is None:
        found = (await app.delivery.deliver_stored(message)).sender.session
    return found if found is not None else await _find_applied(app, message)


async def _find_applied(app: Confab, message: Message) -> Session | None:
    """Return the sender's session if it includes the message."""
    snapshot = await app.store.sessions.find_many(message.sender, [message.conversation])
    sessions = await app.store.channel_sessions.complete(message.sender, snapshot.sessions)
    return next((session for session in sessions if has_message(session, message)), None)


async def _send(app: Confab, message: Message, new: NewMessage, destination: Destination) -> SendResult:
    turn = app.store.cache.turn
    async with turn(message.conversation):
        if not message.is_broadcast:
            return await _send_in_turn(app, message, new, destination)
        async with turn(without_thread(message.conversation)):
            return await _send_in_turn(app, message, new, destination)


async def _send_in_turn(app: Confab, message: Message, new: NewMessage, destination: Destination) -> SendResult:
    claimed = await claim_files(app, message, new) if new.attachments else None
    if claimed is not None:
        message = message._replace(attachments=claimed.attachments)
    # In the Redis fallback, what this request has read may be from before its turn, and from before a block.
    discard_request_cache()
    try:
        with app.delivery.batch_window:
            reserved = await _reserve(app, message, new, destination)
    except ConfabError:
        if claimed is not None:
            await app.store.message_files.release(claimed)
        raise
    if reserved is None:
        original = await wait_for_duplicate(app, message)
        check_same_input(message, original)
        await app.delivery.complete_copy(original)
        return SendResult(original, await find_sender_session(app, original), replayed=True)
    if not reserved.sender_cached and message.is_read_by_sender:
        # The sender's old read position is needed to notify the senders of the messages that become read.
        await app.store.sessions.load(message.sender)
    sent = await app.delivery.send(reserved)
    if sent.message.id != message.id:
        # Another request with the key was faster. Redis has lost the claim of one of the two.
        if claimed is not None:
            await app.store.message_files.release(claimed)
        check_same_input(message, sent.message)
        await app.delivery.complete_copy(sent.message)
        return SendResult(sent.message, await find_sender_session(app, sent.message), replayed=True)
    app.previews.begin(sent.message)
    return SendResult(sent.message, sent.sender.session, replayed=False)


async def _reserve(app: Confab, message: Message, new: NewMessage, destination: Destination) -> ReservedMessage | None:
    """Reserve a place for the message. None if another request has reserved one for it."""
    store = app.store
    kind = kind_of(message.conversation)
    if kind is ConversationKind.CHANNEL:
        return await reserve_in_channel(app, message)
    if kind is ConversationKind.THREAD:
        named, field = (new.thread_of, "threadOf") if new.thread_of else (message.conversation, "conversationId")
        return await reserve_in_thread(app, message, destination.parent, named, field)
    for _ in range(_ATTEMPTS):
        place = await _reserve_when_settled(app, message)
        if isinstance(place, ReservedMessage):
            return place
        if place is Refusal.ALREADY_RESERVED:
            return None
        if place in (Refusal.NOT_LOADED, Refusal.NOT_A_MEMBER) and message.kind.countable:
            await _check_membership(store, message)
        if place is not Refusal.NOT_LOADED:
            raise refusal_error(place)
        if await store.conversations.load((message.conversation,), with_members=True):
            continue
        if new.to_user is None:
            raise no_conversation()
        await check_not_blocked_by(app, message.sender, UserId(new.to_user))
        await store.conversations.open_private(message.conversation, store.clock.now_ms())
    raise _not_loaded()


async def _check_membership(store: Store, message: Message) -> None:
    """Raise NotFound if the sender never was in a group, with the same reads whether the group exists or not."""
    group = message.conversation
    if kind_of(group) is ConversationKind.GROUP and not await store.conversations.list_joined(message.sender, [group]):
        raise no_conversation()


async def _reserve_when_settled(app: Confab, message: Message) -> ReservedMessage | Refusal:
    """Reserve a place as soon as nobody is leaving, and the sender and all mentioned users have a session for it."""
    place: ReservedMessage | Refusal = Refusal.BUSY

    async def attempt() -> bool:
        nonlocal place
        place = await app.store.outbox.reserve(message, by_moderator=message.mentions_all)
        return place is not Refusal.BUSY

    await retry_until_true(attempt, "a change of the group is not stored yet; please try again")
    return place


def refusal_error(refusal: Refusal) -> ConfabError:
    """Return the caller's error for a refused reservation."""
    match refusal:
        case Refusal.NOT_A_MEMBER:
            return no_conversation()
        case Refusal.FORMER_MEMBER:
            return left_conversation()
        case Refusal.BLOCKED:
            return blocked_error()
        case Refusal.FORBIDDEN:
            return Forbidden("only the owner or an admin of the group may use mentionAll", field="mentionAll")
        case Refusal.MENTION_NOT_A_MEMBER:
            return mentioned_outsider()
        case _:
            return _not_loaded()


def _not_loaded() -> Unavailable:
    return Unavailable("the conversation could not be loaded; please try again")
