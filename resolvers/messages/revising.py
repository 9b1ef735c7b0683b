"""Revisions of messages: edits and recalls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from resolvers.base.app import Confab
from resolvers.base.checks import check_content
from resolvers.base.errors import Forbidden, InvalidInput, NotAMember, NotFound, RecallTimeout
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access
from resolvers.conversations.channel_access import check_may_write
from resolvers.groups.group_rules import is_moderator
from resolvers.messages.history import find_revisable
from store.base.ids import UserId
from store.messages.message import Message, MessageKind
from store.workspaces.permissions import Permission

_FIELD = "messageId"


async def edit_message(app: Confab, user: UserId, message: str, content: str) -> Message:
    """Replace the content of the user's own message for all users who can see it. The same content changes nothing.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, Archived, RateLimited: then nothing was changed.
    """
    check_content(content)
    check_rate(app.store.rate_limits.sends, user)
    found, access = await _access_editable(app, user, message)
    if found.text == content:
        return found
    if not found.is_recalled:
        check = partial(_check, partial(_access_editable, app, user, message))
        found = await app.revisions.edit(found, content, user, check, _judged_version(access))
    if found.is_recalled:
        raise InvalidInput("a recalled message can't be edited; send a new one", field=_FIELD)
    return found


async def recall_message(app: Confab, user: UserId, message: str) -> Message:
    """Withhold a message's content from all users from now on. A recalled message does not change.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RecallTimeout, RateLimited: then nothing was changed.
    """
    check_rate(app.store.rate_limits.sends, user)
    found, access = await _access_recallable(app, user, message)
    if found.is_recalled:
        return found
    limit = app.limits.recall_seconds
    if not _may_moderate(access) and app.store.clock.now_ms() - found.created_at_ms > limit * 1000:
        raise RecallTimeout(f"a message can be recalled within {limit} s after it was sent", field=_FIELD)
    check = partial(_check, partial(_access_recallable, app, user, message))
    return await app.revisions.recall(found, user, check, _judged_version(access))


def _may_moderate(access: Access) -> bool:
    """Return whether a user may recall messages of others: in a group by role, in a channel with MANAGE_MESSAGES."""
    if access.rights is not None:
        return access.rights.may(Permission.MANAGE_MESSAGES)
    return access.member is not None and is_moderator(access.member)


async def _check(access: Callable[[], Awaitable[tuple[Message, Access]]]) -> int | None:
    """Check the access of a revision again. Return the policy version under which it was judged."""
    return _judged_version((await access())[1])


def _judged_version(access: Access) -> int | None:
    return access.rights.policy.version if access.rights is not None else None


async def _access_recallable(app: Confab, user: UserId, message: str) -> tuple[Message, Access]:
    """Return a message that the user may recall, apart from the time limit."""
    found, access = await _access_revisable(app, user, message)
    if found.sender != user and not _may_moderate(access):
        raise Forbidden("only the sender or a moderator may recall a message", field=_FIELD)
    return found, access


async def _access_editable(app: Confab, user: UserId, message: str) -> tuple[Message, Access]:
    """Return a message of the user, in a conversation where the user may write."""
    found, access = await _access_revisable(app, user, message)
    if found.sender != user:
        raise Forbidden("only the sender of a message may edit it", field=_FIELD)
    if access.rights is not None:
        check_may_write(access.rights, _FIELD)
    return found, access


async def _access_revisable(app: Confab, user: UserId, message: str) -> tuple[Message, Access]:
    """Return a message that the user can see or has sent, in a conversation that the user is in. No SYSTEM message."""
    found = await find_revisable(app, user, message)
    if found is None:
        raise NotFound("there is no such message, or you can't see it", field=_FIELD)
    if not found[1].is_current:
        raise NotAMember("you are no longer in this conversation", field=_FIELD)
    if found[0].kind is MessageKind.SYSTEM:
        raise InvalidInput("SYSTEM messages can't be edited or recalled", field=_FIELD)
    return found
