"""The right to write in a conversation now, judged apart from a message. Sending judges again at its reservation."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden
from resolvers.conversations.access import Access
from resolvers.conversations.channel_access import check_may_write, writing_error
from resolvers.threads.thread_changes import is_parent_sender, may_manage
from store.base.ids import UserId
from store.channels.sending.sending_rights import judge_writing_in_threads


async def check_may_write_now(app: Confab, user: UserId, access: Access) -> None:
    """Raise Archived or Forbidden unless a current member of a conversation may write there.

    No round trip, except for a locked thread.
    """
    if access.parent is not None:
        await _check_may_reply(app, user, access)
    elif access.rights is not None:
        check_may_write(access.rights)


async def _check_may_reply(app: Confab, user: UserId, access: Access) -> None:
    refusal = judge_writing_in_threads(access.rights) if access.rights is not None else None
    if refusal is not None:
        raise writing_error(refusal)
    is_locked = access.head.thread is not None and access.head.thread.is_locked
    if is_locked and not may_manage(access) and not await is_parent_sender(app, user, access):
        raise Forbidden(
            "this thread is locked: only moderators and the sender of its message write", field="conversationId"
        )
