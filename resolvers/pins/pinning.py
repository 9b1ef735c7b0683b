"""Pinning and unpinning messages."""

from __future__ import annotations

from functools import partial

from resolvers.base.app import Confab
from resolvers.base.errors import Archived, Forbidden, InvalidInput, LimitReached, NotAMember, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.blocks.checks import check_not_blocked
from resolvers.conversations.access import Access
from resolvers.groups.group_rules import is_moderator
from resolvers.messages.history import find_readable
from store.base.ids import MessageId, UserId
from store.messages.message import Message, MessageKind
from store.pins.pin_store import TooManyPins
from store.pins.pins import MOST_PINS, PinGuard, PinNote
from store.workspaces.changing.attempts import repeat_while_superseded
from store.workspaces.permissions import Permission

_FIELD = "messageId"


async def pin_message(app: Confab, user: UserId, message: str) -> Message:
    """Pin a message for all who can read it, and announce it. A message that is pinned already does not change.

    Raises InvalidInput, NotFound, NotAMember, Forbidden, Archived, LimitReached, RateLimited: then nothing was changed.
    """
    return await _change_pin(app, user, message, pinned=True)


async def unpin_message(app: Confab, user: UserId, message: str) -> Message:
    """Unpin a message. A message that is not pinned does not change. Errors are those of `pin_message`."""
    return await _change_pin(app, user, message, pinned=False)


async def _change_pin(app: Confab, user: UserId, message: str, *, pinned: bool) -> Message:
    check_rate(app.store.rate_limits.sends, user)
    found, _ = await _access_pinnable(app, user, message, pinned)
    if found.is_pinned == pinned:
        return found
    await app.delivery.wait_until_delivered(found)
    announcement = MessageId(app.store.ids.next()) if pinned else None
    actor = user if pinned else None
    note = PinNote(0, found.seq, app.store.clock.now_ms(), announcement, actor)
    changed, made = await repeat_while_superseded(partial(_try_to_change, app, user, message, note, pinned))
    if made is not None:
        await app.pins.announce_now(changed.conversation, [made])
    return changed


async def _try_to_change(
    app: Confab, user: UserId, message: str, note: PinNote, pinned: bool
) -> tuple[Message, PinNote | None]:
    """Return the message and its change; None: it was changed before. Raises Superseded if rights have changed."""
    found, guard = await _access_pinnable(app, user, message, pinned)
    note = note._replace(at_ms=app.store.clock.now_ms())
    change = app.store.pins.pin if pinned else app.store.pins.unpin
    try:
        changed = await change(found, note, guard)
    except TooManyPins:
        raise LimitReached(
            f"a conversation has at most {MOST_PINS} pinned messages; unpin one first", field=_FIELD
        ) from None
    if changed is not None:
        return changed
    # Another request was faster, or the message was recalled.
    present, _ = await _access_pinnable(app, user, message, pinned)
    return present, None


async def _access_pinnable(app: Confab, user: UserId, message: str, pinned: bool) -> tuple[Message, PinGuard]:
    """Return a message that the user may pin, or unpin, and what must not change until it is."""
    found = await find_readable(app, user, message)
    if found is None:
        raise NotFound("there is no such message, or you can't see it", field=_FIELD)
    record, access = found
    if not access.is_current:
        raise NotAMember("you are no longer in this conversation", field=_FIELD)
    guard = judge_pinning(access)
    if pinned:
        # The pin is announced by a message.
        check_not_blocked(access, user)
    if record.kind is MessageKind.SYSTEM:
        raise InvalidInput("SYSTEM messages can't be pinned", field=_FIELD)
    if pinned and record.is_recalled:
        raise InvalidInput("a recalled message can't be pinned", field=_FIELD)
    return record, guard


def judge_pinning(access: Access) -> PinGuard:
    """Return under which rights a user who is in a conversation may pin messages there. Raises Archived, Forbidden."""
    rights, member = access.rights, access.member
    if rights is not None:
        if rights.channel.is_archived:
            raise Archived("this channel is archived: it does not change any more", field=_FIELD)
        if not rights.may(Permission.PIN_MESSAGES):
            raise Forbidden("pinning needs the permission PIN_MESSAGES", field=_FIELD)
        return PinGuard(workspace=rights.policy.workspace, version=rights.policy.version)
    if member is None:
        return PinGuard()
    if not is_moderator(member):
        raise Forbidden("only the owner or an admin of the group may pin messages", field=_FIELD)
    group = access.parent.head if access.parent is not None else access.head
    return PinGuard(group=group.conversation, version=group.version)
