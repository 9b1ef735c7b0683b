"""Revisions of messages: edits, recalls, and the removal of link previews."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from resolvers.base.app import Confab
from resolvers.base.checks import check_content
from resolvers.base.errors import Forbidden, InvalidInput, NotAMember, NotFound, RecallTimeout, Rejected
from resolvers.base.rate_limits import check_rate
from resolvers.blocks.checks import check_not_blocked
from resolvers.content_rules.edit_judging import judge_edit
from resolvers.content_rules.hook_judging import ask_hook
from resolvers.content_rules.rejections import time_out_sender
from resolvers.conversations.access import Access
from resolvers.conversations.channel_access import check_may_write
from resolvers.messages.history import as_named, find_revisable
from resolvers.messages.recalling import may_moderate, recall
from store.audit.audit_note import AuditNote
from store.base.ids import UserId, message_id
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.messages.message import Message, MessageKind
from store.previews.embed_updates import NewText
from store.previews.links import find_links
from store.workspaces.permissions import Permission

_FIELD = "messageId"


async def edit_message(app: Confab, user: UserId, message: str, content: str) -> Message:
    """Replace the content of the user's own message for all users who can see it. The same content changes nothing.

    The new content is judged as that of a new message. Raises InvalidInput, NotFound, NotAMember, Forbidden, Archived,
    RateLimited, Rejected: then nothing was changed.
    """
    # Messages with files may have no text, and whether this one has any is seen below.
    check_content(content, may_be_empty=True)
    check_rate(app.store.rate_limits.sends, user)
    found, access = await _access_editable(app, user, message)
    if not found.is_recalled:
        check_content(content, may_be_empty=bool(found.attachments))
    if found.text == content:
        return await as_named(app, message, found)
    if not found.is_recalled:
        try:
            found = await _edit(app, user, message, found, access, content)
        except Rejected as error:
            if error.times_out_sender:
                await time_out_sender(app, user, found.conversation)
            raise
        app.previews.begin(found)
    if found.is_recalled:
        raise InvalidInput("a recalled message can't be edited; send a new one", field=_FIELD)
    return await as_named(app, message, found)


async def _edit(app: Confab, user: UserId, message: str, found: Message, access: Access, content: str) -> Message:
    """Store and publish an edit of a message that was found by its id."""
    edited = await ask_hook(app, found._replace(text=content), is_edit=True)
    new = await _new_text(app, edited, access)

    async def check() -> int | None:
        nonlocal new
        _, allowed = await _access_editable(app, user, message)
        new = await _new_text(app, edited, allowed)
        return _judged_version(allowed)

    return await app.revisions.edit(found, lambda: new, user, check, _judged_version(access))


async def _new_text(app: Confab, edited: Message, access: Access) -> NewText:
    """Return the text of an edit, judged under the present rights and content rules. Raises Rejected.

    Its links are previewed if the user may embed links now.
    """
    content = edited.text or ""
    may_embed = access.rights is None or access.rights.may(Permission.EMBED_LINKS)
    due_ms = app.previews.due_ms(edited.conversation, content) if may_embed else None
    flag = await judge_edit(app, edited, access.rights) if access.rights is not None else edited.flag
    return NewText(content, tuple(find_links(content)), due_ms, flag)


async def suppress_embeds(app: Confab, user: UserId, message: str) -> Message:
    """Remove the link previews of the user's own message for good. A second call changes nothing.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RateLimited: then nothing was changed.
    """
    check_rate(app.store.rate_limits.sends, user)
    found, access = await _access_own(app, user, message)
    if not found.is_recalled and not found.embeds.is_suppressed:
        check = partial(_check, partial(_access_own, app, user, message))
        found = await app.revisions.suppress_embeds(found, user, check, _judged_version(access))
    if found.is_recalled:
        raise InvalidInput("a recalled message has no embeds", field=_FIELD)
    return await as_named(app, message, found)


async def recall_message(app: Confab, user: UserId, message: str) -> Message:
    """Withhold a message's content from all users from now on. A recalled message does not change.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, RecallTimeout, RateLimited: then nothing was changed.
    """
    check_rate(app.store.rate_limits.sends, user)
    found, access = await _access_recallable(app, user, message)
    if found.is_recalled:
        return await as_named(app, message, found)
    limit = app.limits.recall_seconds
    if not may_moderate(access) and app.store.clock.now_ms() - found.created_at_ms > limit * 1000:
        raise RecallTimeout(f"a message can be recalled within {limit} s after it was sent", field=_FIELD)
    check = partial(_check, partial(_access_recallable, app, user, message))
    note = _moderation_note(user, found) if found.sender != user else None
    return await as_named(app, message, await recall(app, found, user, check, _judged_version(access), note))


def _moderation_note(moderator: UserId, message: Message) -> AuditNote:
    place = {"messageId": message_id(message.id), "conversationId": message.conversation}
    # The log never contains the text: admins read the entries of groups in which they are not members.
    workspace = workspace_of_channel(message.conversation) if is_in_workspace(message.conversation) else None
    return AuditNote(moderator, "recallMessage", workspace, message.sender, before=place)


async def _check(access: Callable[[], Awaitable[tuple[Message, Access]]]) -> int | None:
    """Check the access of a revision again. Return the policy version under which it was judged."""
    return _judged_version((await access())[1])


def _judged_version(access: Access) -> int | None:
    return access.rights.policy.version if access.rights is not None else None


async def _access_recallable(app: Confab, user: UserId, message: str) -> tuple[Message, Access]:
    """Return a message that the user may recall, apart from the time limit."""
    found, access = await _access_revisable(app, user, message)
    if found.sender != user and not may_moderate(access):
        raise Forbidden("only the sender or a moderator may recall a message", field=_FIELD)
    return found, access


async def _access_own(app: Confab, user: UserId, message: str) -> tuple[Message, Access]:
    """Return a message of the user, in a conversation that the user is in."""
    found, access = await _access_revisable(app, user, message)
    if found.sender != user:
        raise Forbidden("only the sender of a message may suppress its embeds", field=_FIELD)
    return found, access


async def _access_editable(app: Confab, user: UserId, message: str) -> tuple[Message, Access]:
    """Return a message of the user, in a conversation where the user may write."""
    found, access = await _access_revisable(app, user, message)
    if found.sender != user:
        raise Forbidden("only the sender of a message may edit it", field=_FIELD)
    check_not_blocked(access, user)
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
        raise InvalidInput("SYSTEM messages can't be changed or recalled", field=_FIELD)
    return found
