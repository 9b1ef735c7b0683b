"""Typing: telling the others of a conversation, while it is so."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotAMember, NotFound
from resolvers.conversations.access import Access, access_conversation, access_from, may_be_in
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private


async def start_typing(app: Confab, user: UserId, conversation: str) -> bool:
    """Tells the conversation's other members who are connected that the user is typing, at most once in 3 s.

    False: nobody was told. Raises NotFound, NotAMember, and InvalidInput for a subBiz.
    """
    access, version = await _access(app, user, conversation)
    if access is None:
        raise NotFound("there is no such conversation", field="conversationId")
    if not access.is_current:
        raise NotAMember("you are no longer in this conversation", field="conversationId")
    return await app.typing.announce(access.head.conversation, user, version)


async def _access(app: Confab, user: UserId, conversation: str) -> tuple[Access | None, str]:
    """What the user may see of a conversation, and under which version of a group's membership."""
    if kind_of(conversation) is ConversationKind.SUB_BIZ:
        raise InvalidInput("one types in a conversation, not in a subBiz", field="conversationId")
    if not may_be_in(user, conversation):
        return None, ""
    if parse_private(conversation) is not None:
        return await access_conversation(app, user, conversation), ""
    standing = await app.store.conversations.find_standing(ConversationId(conversation), [user])
    if standing is None:
        return None, ""
    return access_from(standing.head, standing.members.get(user)), standing.version
