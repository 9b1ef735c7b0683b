"""Where a user may send files."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, InvalidInput
from resolvers.conversations.access import access_conversation, left_conversation, may_be_in, no_conversation
from resolvers.threads.writing import check_may_write_now
from store.base.ids import ConversationId, UserId, parse_private, private_id
from store.channels.channel_rights import ChannelRights
from store.workspaces.permissions import Permission

_FIELD = "conversationId"


async def check_destination(app: Confab, user: UserId, conversation: str) -> ConversationId:
    """Return the conversation if the user may send a file there now.

    It may be a private conversation that does not exist yet. Raises InvalidInput, NotFound, NotAMember, Archived,
    Forbidden.
    """
    named = ConversationId(conversation)
    if named == private_id(user, user):
        raise InvalidInput("you can't send a file to yourself; name another user", field=_FIELD)
    if not may_be_in(user, named):
        raise no_conversation()
    access = await access_conversation(app, user, named)
    if access is None:
        await _check_peer(app, user, named)
        return named
    if not access.is_current:
        raise left_conversation()
    await check_may_write_now(app, user, access)
    if access.rights is not None:
        check_may_attach(access.rights)
    return named


def check_may_attach(rights: ChannelRights, field: str = _FIELD) -> None:
    """Raise Forbidden unless a user who may write in a channel may send files there."""
    if not rights.may(Permission.ATTACH_FILES):
        raise Forbidden("sending files in this channel needs the permission ATTACH_FILES", field=field)


async def _check_peer(app: Confab, user: UserId, conversation: ConversationId) -> None:
    """Raise NotFound unless a first message may open this private conversation."""
    people = parse_private(conversation)
    if people is None:
        raise no_conversation()
    peer = people[0] if people[1] == user else people[1]
    if await app.store.users.find(peer) is None:
        raise no_conversation()
