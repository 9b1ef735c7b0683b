"""Typing: notifies the other members that a user is typing, or has stopped."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from resolvers.conversations.access import (
    Access,
    FoundConversation,
    access_conversation,
    access_from,
    left_conversation,
    may_be_in,
    no_conversation,
)
from resolvers.threads.writing import check_may_write_now
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of


async def start_typing(app: Confab, user: UserId, conversation: str) -> bool:
    """Notify the conversation's other connected members that the user is typing, at most once in 3 s.

    Return False if no event was sent. Raises NotFound, NotAMember, Archived, Forbidden, and InvalidInput for a subBiz.
    """
    access, version = await _current_access(app, user, conversation)
    if access.rights is not None:
        return await app.typing.announce_in_channel(access.head.conversation, user)
    return await app.typing.announce(access.head.conversation, user, version)


async def stop_typing(app: Confab, user: UserId, conversation: str) -> bool:
    """Notify the other connected members that the user has stopped typing, if they were notified of the start.

    Return False if no event was sent. Raises NotFound, NotAMember, Archived, Forbidden, and InvalidInput for a subBiz.
    """
    access, version = await _current_access(app, user, conversation)
    if access.rights is not None:
        return await app.typing.announce_end_in_channel(access.head.conversation, user)
    return await app.typing.announce_end(access.head.conversation, user, version)


async def _current_access(app: Confab, user: UserId, conversation: str) -> tuple[Access, str]:
    """Return the access of a user who may write, and the version of a group's membership."""
    access, version = await _access(app, user, conversation)
    if access is None:
        raise no_conversation()
    if not access.is_current:
        raise left_conversation()
    await check_may_write_now(app, user, access)
    return access, version


async def _access(app: Confab, user: UserId, conversation: str) -> tuple[Access | None, str]:
    """Return the user's access to a conversation, and the version of a group's membership."""
    if kind_of(conversation) is ConversationKind.SUB_BIZ:
        raise InvalidInput("conversationId must name a conversation, not a subBiz", field="conversationId")
    if not may_be_in(user, conversation):
        return None, ""
    if kind_of(conversation) is not ConversationKind.GROUP:
        return await access_conversation(app, user, conversation), ""
    group = ConversationId(conversation)
    snapshot = await app.store.conversations.find_group_snapshot(group, [user], for_member=user)
    if snapshot is None:
        return None, ""
    return access_from(FoundConversation(snapshot.head, snapshot.members.get(user))), snapshot.version
