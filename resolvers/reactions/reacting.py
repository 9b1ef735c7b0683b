"""Adding, removing and clearing reactions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.emoji import check_emoji
from resolvers.base.errors import Archived, ConfabError, Forbidden, InvalidInput, LimitReached, NotAMember
from resolvers.base.rate_limits import check_rate
from resolvers.blocks.checks import check_not_blocked
from resolvers.conversations.access import Access
from resolvers.groups.group_rules import is_moderator
from resolvers.messages.history import as_named, find_revisable, no_message
from store.audit.audit_note import AuditNote
from store.base.ids import UserId, message_id
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.messages.message import Message
from store.reactions.reaction_draft import (
    MOST_EMOJI,
    MOST_EMOJI_OF_USER,
    ReactionChange,
    ReactionChangeKind,
    ReactionDraft,
    ReactionRefusal,
)
from store.workspaces.permissions import Permission

_FIELD = "messageId"


async def add_reaction(app: Confab, user: UserId, message: str, emoji: str) -> Message:
    """Add a reaction of the user to a message that they can see. Return the message after it.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, Archived, LimitReached, RateLimited: then nothing was changed.
    """
    return await _change(app, user, message, ReactionChangeKind.ADD, await check_emoji(emoji))


async def remove_reaction(app: Confab, user: UserId, message: str, emoji: str) -> Message:
    """Take back a reaction of the user. Errors are those of `add_reaction`, except for limits and permissions."""
    return await _change(app, user, message, ReactionChangeKind.REMOVE, await check_emoji(emoji))


async def clear_reactions(app: Confab, user: UserId, message: str, emoji: str | None) -> Message:
    """Remove the reactions of all users, or those with one emoji. For moderators.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, Archived, RateLimited: then nothing was changed.
    """
    checked = await check_emoji(emoji) if emoji is not None else None
    return await _change(app, user, message, ReactionChangeKind.CLEAR, checked)


async def _change(app: Confab, user: UserId, message: str, kind: ReactionChangeKind, emoji: str | None) -> Message:
    check_rate(app.store.rate_limits.sends, user)
    found, change = await _judge(app, user, message, kind, emoji)
    if not _would_change(found, change):
        return await as_named(app, message, found)
    if found.is_broadcast:
        # The copy's reactions are published too, and must not overtake the copy.
        await app.delivery.wait_until_delivered(found)
    outcome = await app.reactions.change(found, change, partial(_judge_again, app, user, message, kind, emoji))
    if isinstance(outcome, ReactionRefusal):
        raise _error_for(outcome)
    return await as_named(app, message, outcome)


async def _judge(
    app: Confab, user: UserId, message: str, kind: ReactionChangeKind, emoji: str | None
) -> tuple[Message, ReactionChange]:
    """Return the message and the change, under the rights that the user has now. Raises if they may not make it."""
    found = await find_revisable(app, user, message)
    if found is None:
        raise no_message()
    wanted, access = found
    if not access.is_current:
        raise NotAMember("you are no longer in this conversation", field=_FIELD)
    if access.rights is not None and access.rights.channel.is_archived:
        raise Archived("this channel is archived: it does not change any more", field=_FIELD)
    if kind is ReactionChangeKind.ADD:
        check_not_blocked(access, user)
    if kind is ReactionChangeKind.CLEAR and not _may_clear(access):
        raise Forbidden("you may not remove the reactions of others here", field=_FIELD)
    if wanted.is_recalled:
        raise _error_for(ReactionRefusal.RECALLED)
    row = _audit_row(app, user, wanted, emoji) if kind is ReactionChangeKind.CLEAR else None
    if access.rights is None:
        return wanted, ReactionChange(kind, user, emoji, audit=row)
    may_introduce = access.rights.may(Permission.ADD_REACTIONS)
    return wanted, ReactionChange(kind, user, emoji, may_introduce, access.rights.policy.version, row)


def _audit_row(app: Confab, user: UserId, message: Message, emoji: str | None) -> Mapping[str, Any]:
    conversation = message.conversation
    cleared = {each.emoji: each.user_count for each in message.reactions if emoji in (None, each.emoji)}
    workspace = workspace_of_channel(conversation) if is_in_workspace(conversation) else None
    before = {"conversationId": conversation, "reactions": cleared}
    return app.store.audit.entry_rows(AuditNote(user, "clearReactions", workspace, message_id(message.id), before))[0]


async def _judge_again(
    app: Confab, user: UserId, message: str, kind: ReactionChangeKind, emoji: str | None
) -> ReactionChange:
    return (await _judge(app, user, message, kind, emoji))[1]


def _may_clear(access: Access) -> bool:
    if access.rights is not None:
        return access.rights.may(Permission.MANAGE_MESSAGES)
    return access.member is not None and is_moderator(access.member)


def _would_change(message: Message, change: ReactionChange) -> bool:
    """Return whether a change of a message that was just read may change anything. Raises if it would be refused."""
    if change.kind is ReactionChangeKind.CLEAR:
        return any(change.emoji in (None, summary.emoji) for summary in message.reactions)
    draft = ReactionDraft(message.reactions)
    if draft.list_unknown([change]):
        return True
    refusal = draft.apply(change, 0)
    if refusal is not None:
        raise _error_for(refusal)
    return bool(draft.added or draft.removed)


def _error_for(refusal: ReactionRefusal) -> ConfabError:
    match refusal:
        case ReactionRefusal.GONE:
            return no_message()
        case ReactionRefusal.RECALLED:
            return InvalidInput("a recalled message has no reactions", field=_FIELD)
        case ReactionRefusal.NEEDS_PERMISSION:
            return Forbidden("adding an emoji that is not there yet needs the permission ADD_REACTIONS", field=_FIELD)
        case ReactionRefusal.TOO_MANY_EMOJI:
            return LimitReached(f"a message has at most {MOST_EMOJI} different emoji", field="emoji")
        case ReactionRefusal.TOO_MANY_OF_USER:
            return LimitReached(f"you can add at most {MOST_EMOJI_OF_USER} different emoji to a message", field="emoji")
