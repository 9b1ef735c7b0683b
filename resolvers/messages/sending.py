"""Messages: sending them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import orjson

from resolvers.base.app import Confab
from resolvers.base.checks import check_content, check_key, check_sub_biz
from resolvers.base.errors import Forbidden, InvalidInput, NotAMember, NotFound, RateLimited, Unavailable
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import access_conversation
from resolvers.conversations.visibility import is_visible
from resolvers.messages.idempotency import await_twin, claim_message
from store.base.ids import (
    ConversationId,
    ConversationKind,
    MessageId,
    UserId,
    is_user_id,
    kind_of,
    parse_message_id,
    parse_private,
    private_id,
)
from store.messages.idempotency_claims import Claim
from store.messages.message_store import Refused
from store.messages.records import Message, MessageKind, Reserved
from store.redis.single_flight import retry_until_true
from store.sessions.session import Session

MOST_MENTIONS = 5_000

_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class NewMessage:
    """What a caller asks to be sent. Exactly one of to_user and conversation."""

    to_user: str | None
    conversation: str | None
    content: str
    kind: MessageKind = MessageKind.TEXT
    mentions: tuple[str, ...] = ()
    mention_all: bool = False
    reply_to: str | None = None
    key: str | None = None
    sub_biz: str | None = None


@dataclass(frozen=True, slots=True)
class SendResult:
    """A message as it is stored. `session` is the sender's where it is at hand; replayed: it was sent before."""

    message: Message
    session: Session | None
    replayed: bool


async def send_message(app: Confab, sender: UserId, new: NewMessage) -> SendResult:
    """Sends a message, durable before this returns. Sending reads the conversation.

    The same key with the same input answers the original message. Raises InvalidInput, NotFound, NotAMember, Forbidden,
    IdempotencyConflict, RateLimited: nothing is stored then. Unavailable or Unreachable: it may have been stored; the same key tells.
    """
    check_content(new.content)
    if new.kind is MessageKind.SYSTEM:
        raise InvalidInput("SYSTEM messages are written by the server only", field="contentType")
    check_key(new.key)
    check_sub_biz(new.sub_biz)
    if new.key is None:
        check_rate(app.store.rate_limits.sends, sender)
    conversation = await _resolve_destination(app, sender, new)
    mentions = _check_mentions(conversation, new)
    # Found out later, it would leave a place, and a key, for what nobody may want any more once it can be stored.
    app.store.mongo.require_primary()
    reply_to = await _access_reply(app, sender, conversation, new.reply_to) if new.reply_to is not None else None
    message = Message(
        id=MessageId(app.store.ids.next()),
        conversation=conversation,
        sender=sender,
        kind=new.kind,
        text=new.content,
        mentions=mentions,
        mentions_all=new.mention_all,
        reply_to=reply_to,
        key=new.key,
        digest=_digest(conversation, new, mentions) if new.key else None,
    )
    opens = new.to_user is not None
    if message.key is None or message.digest is None:
        return await _send(app, message, opens=opens)
    claim = Claim(message.id, conversation, message.digest)
    found = await claim_message(app, message, claim)
    if isinstance(found, Message):
        return SendResult(found, await _see_shown(app, found), replayed=True)
    try:
        # Not before: a replay is answered however often it is asked for.
        check_rate(app.store.rate_limits.sends, sender)
        return await _send(app, replace(message, id=found), opens=opens)
    except (InvalidInput, NotFound, NotAMember, Forbidden, RateLimited):
        await app.store.claims.release(sender, message.key, claim)
        raise


async def _see_shown(app: Confab, message: Message) -> Session | None:
    """The sender's session, with a message in it that is durable. Whoever stored it may have died before showing it to anybody, and
    the outbox that tells of it may be lost."""
    snapshot = await app.store.sessions.find_many(message.sender, [message.conversation])
    session = next(iter(snapshot.sessions), None)
    if session is not None and min(session.write_seq, session.read_seq) >= message.seq:
        return session
    return (await app.delivery.show_stored(message)).sender.session


async def _send(app: Confab, message: Message, *, opens: bool) -> SendResult:
    async with app.store.cache.turn(message.conversation):
        return await _send_in_turn(app, message, opens=opens)


async def _send_in_turn(app: Confab, message: Message, *, opens: bool) -> SendResult:
    with app.delivery.coming:
        reserved = await _reserve(app, message, opens=opens)
    if reserved is None:
        twin = await await_twin(app, message)
        return SendResult(twin, await _see_shown(app, twin), replayed=True)
    if not reserved.sender_in_use:
        # What the sender had not read before tells whose messages the new one makes read.
        await app.store.sessions.load(message.sender)
    sent = await app.delivery.send(reserved)
    return SendResult(sent.message, sent.sender.session, replayed=False)


async def _reserve(app: Confab, message: Message, *, opens: bool) -> Reserved | None:
    """A place for the message. None where another request got one for it."""
    store = app.store
    for _ in range(_ATTEMPTS):
        place = await _place(app, message)
        if isinstance(place, Reserved):
            return place
        if place.reason == "twice":
            return None
        if place.reason != "cold":
            raise refusal(place)
        if await store.conversations.load((message.conversation,), with_members=True):
            continue
        if not opens:
            raise NotFound("there is no such conversation", field="conversationId")
        await store.conversations.open_private(message.conversation, store.clock.now_ms())
    raise Unavailable("the conversation could not be loaded")


async def _place(app: Confab, message: Message) -> Reserved | Refused:
    """A place or a refusal, once who sends the message, and who is mentioned, has a session for it."""
    place: Reserved | Refused = Refused("busy")

    async def attempt() -> bool:
        nonlocal place
        place = await app.store.messages.reserve(message, by_moderator=message.mentions_all)
        return not (isinstance(place, Refused) and place.reason == "busy")

    await retry_until_true(attempt, "somebody whom a message is about is just becoming a member")
    return place


def refusal(refused: Refused) -> InvalidInput | NotFound | NotAMember | Forbidden | Unavailable:
    """The failure that a refused place means to the caller."""
    match refused.reason:
        case "outsider":
            return NotFound("there is no such conversation", field="conversationId")
        case "former":
            return NotAMember("you are no longer in this conversation", field="conversationId")
        case "forbidden":
            return Forbidden("only an owner or admin may mention everybody", field="mentionAll")
        case "mention":
            return InvalidInput("only members of the conversation can be mentioned", field="mentions")
        case _:
            return Unavailable("the conversation could not be loaded")


async def _resolve_destination(app: Confab, sender: UserId, new: NewMessage) -> ConversationId:
    if (new.to_user is None) == (new.conversation is None):
        raise InvalidInput("give exactly one of toUserId and conversationId")
    if new.sub_biz is not None and new.to_user is None:
        raise InvalidInput("subBiz goes with toUserId only", field="subBiz")
    if new.to_user is not None:
        if new.to_user == sender:
            raise InvalidInput("a message to oneself is not possible", field="toUserId")
        peer = UserId(new.to_user)
        if not is_user_id(peer) or await app.store.users.find(peer) is None:
            raise NotFound("there is no such user", field="toUserId")
        return private_id(sender, peer, new.sub_biz)
    conversation = ConversationId(new.conversation or "")
    if conversation == private_id(sender, sender):
        raise InvalidInput("a message to oneself is not possible", field="conversationId")
    people = parse_private(conversation)
    if kind_of(conversation) in (None, ConversationKind.SUB_BIZ) or (people is not None and sender not in people[:2]):
        raise NotFound("there is no such conversation", field="conversationId")
    return conversation


def _check_mentions(conversation: ConversationId, new: NewMessage) -> tuple[UserId, ...]:
    mentions = tuple(dict.fromkeys(UserId(user) for user in new.mentions))
    if len(mentions) > MOST_MENTIONS:
        raise InvalidInput(f"at most {MOST_MENTIONS} users can be mentioned", field="mentions")
    if not all(is_user_id(user) for user in mentions):
        raise InvalidInput("only members of the conversation can be mentioned", field="mentions")
    people = parse_private(conversation)
    if people is not None:
        if new.mention_all:
            raise InvalidInput("everybody can be mentioned in groups only", field="mentionAll")
        if not set(mentions) <= set(people[:2]):
            raise InvalidInput("only members of the conversation can be mentioned", field="mentions")
    return mentions


async def _access_reply(
    app: Confab, sender: UserId, conversation: ConversationId, reply_to: str
) -> tuple[MessageId, int]:
    """The message replied to, if the sender can see it there. One who can't write here is told that first."""
    access = await access_conversation(app, sender, conversation)
    if access is None and kind_of(conversation) is ConversationKind.GROUP:
        raise NotFound("there is no such conversation", field="conversationId")
    if access is not None and not access.is_current:
        raise NotAMember("you are no longer in this conversation", field="conversationId")
    wanted = parse_message_id(reply_to)
    found = await app.store.messages.find_in(conversation, wanted) if wanted is not None else None
    if found is None or access is None or not is_visible(found.seq, access.ranges):
        raise InvalidInput("replyToId is not a message of this conversation that you can see", field="replyToId")
    return found.id, found.seq


def _digest(conversation: ConversationId, new: NewMessage, mentions: tuple[UserId, ...]) -> str:
    """What tells one input from another, the destination resolved and defaults filled in."""
    parts = [conversation, new.content, new.kind.value, sorted(mentions), new.mention_all, new.reply_to]
    return hashlib.blake2b(orjson.dumps(parts), digest_size=12).hexdigest()
