"""Revising messages: editing and recalling them."""

from __future__ import annotations

from functools import partial

from resolvers.base.app import Confab
from resolvers.base.checks import check_content
from resolvers.base.errors import Forbidden, InvalidInput, NotAMember, NotFound, RecallTimeout
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
from resolvers.conversations.visibility import is_visible, visible_ranges
from resolvers.groups.group_rules import is_moderator
from store.base.ids import ConversationId, UserId, parse_message_id, parse_private
from store.messages.records import Message, MessageKind
from store.store import Store

_FIELD = "messageId"


async def edit_message(app: Confab, user: UserId, message: str, content: str) -> Message:
    """Gives the user's own message another content; the same one again changes nothing. All who can see the message see it.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RateLimited: nothing is changed then.
    """
    check_content(content)
    check_rate(app.store.rate_limits.sends, user)
    found, _ = await _access_message(app, user, message)
    if found.sender != user:
        raise Forbidden("only its sender may edit a message", field=_FIELD)
    if found.text == content:
        return found
    if not found.is_recalled:
        found = await app.revisions.edit(found, content, user, partial(_access_message, app, user, message))
    if found.is_recalled:
        raise InvalidInput("a recalled message can't be edited", field=_FIELD)
    return found


async def recall_message(app: Confab, user: UserId, message: str) -> Message:
    """Withholds a message's content from everybody, from now on; one that is recalled already stays as it is.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RecallTimeout, RateLimited: nothing is changed then.
    """
    check_rate(app.store.rate_limits.sends, user)
    found, access = await _access_message(app, user, message)
    moderates = access.member is not None and is_moderator(access.member)
    if found.sender != user and not moderates:
        raise Forbidden("only its sender, and a group's owner or admin, may recall a message", field=_FIELD)
    if found.is_recalled:
        return found
    limit = app.limits.recall_seconds
    if not moderates and app.store.clock.now_ms() - found.created_at_ms > limit * 1000:
        raise RecallTimeout(f"a message can be recalled within {limit} s", field=_FIELD)
    return await app.revisions.recall(found, user, partial(_access_message, app, user, message))


async def _access_message(app: Confab, user: UserId, message: str) -> tuple[Message, Access]:
    """A message that the user can see, of a conversation that they are in, written by a person."""
    wanted = parse_message_id(message)
    found = (await app.store.messages.find_by_ids([wanted])).get(wanted) if wanted is not None else None
    access = await access_conversation(app, user, found.conversation) if found is not None else None
    if found is None or access is None or not is_visible(found.seq, access.ranges):
        raise NotFound("there is no such message", field=_FIELD)
    if not access.is_current:
        raise NotAMember("you are no longer in this conversation", field=_FIELD)
    if found.kind is MessageKind.SYSTEM:
        raise InvalidInput("SYSTEM messages stay as they are", field=_FIELD)
    return found, access


async def list_viewers(store: Store, conversation: ConversationId, seq: int) -> list[UserId]:
    """Who is in a conversation now and can read the message at a seq."""
    people = parse_private(conversation)
    if people is not None:
        return list(people[:2])
    head = await store.conversations.find(conversation)
    if head is None or head.group is None:
        return []
    full = head.group.full_history
    members = [member for member in await store.conversations.list_members(conversation) if member.is_current]
    return [m.user for m in members if is_visible(seq, visible_ranges(m, full_history=full))]
