"""Recalls several messages of one conversation as a moderator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from resolvers.base.app import Confab
from resolvers.base.errors import ConfabError, Forbidden, InvalidInput, NotAMember, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
from resolvers.messages.recalling import may_moderate
from resolvers.moderation.targets import accept_reason
from resolvers.recalls.recalls_at_once import recall_all
from store.audit.audit_note import AuditNote
from store.base.ids import ConversationId, MessageId, UserId, parse_message_id, without_thread
from store.base.workspace_ids import workspace_of
from store.messages.message import Message, MessageKind

MOST_RECALLED = 100


async def recall_messages(
    app: Confab, user: UserId, conversation: str, messages: Sequence[str], reason: str | None = None
) -> list[Message]:
    """Recall up to 100 messages of a conversation, of any senders. Return them in the order given.

    In channels and their threads it needs MANAGE_MESSAGES, in groups and their threads the role OWNER or ADMIN. In
    private conversations nobody may. Messages that were recalled before stay as they are. Reactions, pins, counts and
    files follow as for a single recall.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RateLimited: then nothing was changed. Raises StoreError: some
    may be recalled; the call may be repeated.
    """
    if not 1 <= len(messages) <= MOST_RECALLED:
        raise InvalidInput(f"give 1 to {MOST_RECALLED} messages", field="messageIds")
    reason = accept_reason(reason)
    check_rate(app.store.rate_limits.sends, user)
    access = await _access_moderated(app, user, conversation)
    named = [parse_message_id(message) for message in messages]
    wanted = list(dict.fromkeys(id for id in named if id is not None))
    found = await app.store.messages.find_by_ids(wanted) if wanted else {}
    for id in named:
        _check_recallable(found.get(id) if id is not None else None, ConversationId(conversation), access)
    targets = {id: await _target(app, found[id]) for id in wanted}
    pending = {target.id: target for target in targets.values() if not target.is_recalled}
    if not pending:
        return [found[id] for id in named if id is not None]
    note = _audit_note(user, ConversationId(conversation), list(pending.values()), reason)
    entries = await app.store.audit.record(note)
    check = partial(_check, app, user, conversation)
    try:
        recalled = await recall_all(app, list(pending.values()), user, check, _judged_version(access))
    except ConfabError:
        # The user lost the right meanwhile. Some may be recalled.
        present = await app.store.messages.find_by_ids(list(pending))
        if not any(message.is_recalled for message in present.values()):
            await app.store.audit.withdraw(entries)
        raise
    after = {message.id: message for message in recalled}
    copies = [id for id in wanted if targets[id].id != id]
    after |= await app.store.messages.find_by_ids(copies) if copies else {}
    return [after.get(id, found[id]) for id in named if id is not None]


async def _access_moderated(app: Confab, user: UserId, conversation: str) -> Access:
    """Return the access of a user who may moderate a conversation. Raises NotFound, NotAMember and Forbidden."""
    access = await access_conversation(app, user, conversation)
    if access is None:
        raise NotFound("there is no such conversation", field="conversationId")
    if not access.is_current:
        raise NotAMember("you are no longer in this conversation", field="conversationId")
    if not may_moderate(access):
        raise Forbidden("only moderators of the conversation may do this", field="conversationId")
    return access


def _check_recallable(message: Message | None, conversation: ConversationId, access: Access) -> None:
    if message is None or message.conversation != conversation or not access.shows(message):
        raise NotFound("one of the messages is not in this conversation, or you can't see it", field="messageIds")
    if message.kind is MessageKind.SYSTEM:
        raise InvalidInput("SYSTEM messages can't be recalled; leave them out", field="messageIds")


async def _target(app: Confab, message: Message) -> Message:
    """Return the message that changes if this one is recalled: of the copy of a reply, the reply."""
    reply = await app.delivery.find_reply(message) if message.broadcast_of is not None else message
    if reply is None:
        raise NotFound("one of the messages does not exist any more; leave it out", field="messageIds")
    return reply


async def _check(app: Confab, user: UserId, conversation: str) -> int | None:
    return _judged_version(await _access_moderated(app, user, conversation))


def _judged_version(access: Access) -> int | None:
    return access.rights.policy.version if access.rights is not None else None


def _audit_note(
    user: UserId, conversation: ConversationId, messages: Sequence[Message], reason: str | None
) -> AuditNote:
    """Return the audit note. Its target is the sender, if all messages have the same one, else the conversation."""
    senders = {message.sender for message in messages}
    return AuditNote(
        user,
        "recallMessages",
        workspace_of(without_thread(conversation), "c"),
        senders.pop() if len(senders) == 1 else conversation,
        after={"conversationId": conversation, "messageIds": [_public(message.id) for message in messages]},
        reason=reason,
    )


def _public(message: MessageId) -> str:
    return f"m_{message}"
