"""Recalls a message, for its sender, for moderators, and for work in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from resolvers.base.app import Confab
from resolvers.conversations.access import Access
from resolvers.groups.group_rules import is_moderator
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.messages.message import Message
from store.workspaces.permissions import Permission

CheckRight = Callable[[], Awaitable[int | None]]
"""Checks the right again, if it may have changed. Returns the policy version under which it was judged."""


async def need_no_right() -> None:
    """Check nothing, for recalls that need no right any more, as those of messages of a banned user."""


async def recall(
    app: Confab,
    message: Message,
    by: UserId,
    check: CheckRight = need_no_right,
    judged_version: int | None = None,
    audit: AuditNote | None = None,
) -> Message:
    """Recall a message: no user gets its content from now on. Announce it, and return the message as it is then.

    Nothing changes if it was recalled before. The caller has judged the right of `by`.

    Args:
        app: The application.
        message: The message. Of a broadcast reply, the reply and not its copy.
        by: The user who recalls it, as readers see it.
        check: Judges the right again. By default this is not needed, as for messages of a banned user.
        judged_version: In channels: the policy version under which the right was judged.
        audit: The entry of the audit log, which is stored with the recall.

    Raises StoreError: the recall may have been stored. Then it will be published.
    """
    recalled = await app.revisions.recall(message, by, check, judged_version, audit)
    await app.pins.announce_recall(recalled)
    copy = await app.store.copies.find(recalled)
    if copy is not None:
        await app.pins.announce_recall(copy)
    return recalled


def may_moderate(access: Access) -> bool:
    """Return whether a user may recall messages of others: in a group by role, in a channel with MANAGE_MESSAGES."""
    if access.rights is not None:
        return access.rights.may(Permission.MANAGE_MESSAGES)
    return access.member is not None and is_moderator(access.member)
