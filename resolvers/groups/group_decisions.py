"""Decisions about groups, and how they are carried out.

A change is decided on a snapshot of the group and made only if the group is still the same. Of changes that conflict,
the later one is decided again on the result of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from resolvers.base.app import Confab
from resolvers.base.errors import NotAMember, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
from store.base.errors import Superseded
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, is_user_id, kind_of
from store.conversations.conversation import GroupSnapshot, Member
from store.conversations.group_change import ProposedChange
from store.messages.message import Message, MessageKind
from store.messages.outbox_store import Refusal
from store.redis.single_flight import retry_until_true


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """A change to make. `text`: the SYSTEM message that announces it; None: no message does. `about`: its mentions."""

    change: ProposedChange
    text: str | None = None
    about: Sequence[UserId] = ()


Decide = Callable[[GroupSnapshot, Member], GroupDecision | None]
"""Decides on a group for an acting member. Raises the caller's error; returns None if there is nothing to do."""


async def access_group(app: Confab, actor: UserId, group: str) -> ConversationId:
    """Return a group that the actor may try to change, and count it against their rate.

    Raises NotFound for a group that the actor was never in, NotAMember for one that they left, RateLimited.
    """
    check_rate(app.store.rate_limits.group_changes, actor)
    access = await access_conversation(app, actor, group) if kind_of(group) is ConversationKind.GROUP else None
    if access is None:
        raise _no_group("groupId")
    if not access.is_current:
        raise _left_group("groupId")
    return ConversationId(group)


async def view_group(app: Confab, viewer: UserId, group: ConversationId) -> Access:
    """Return the group as the viewer sees it after a change. Raises NotFound."""
    access = await access_conversation(app, viewer, group)
    if access is None:
        raise _no_group("groupId")
    return access


async def carry_out(
    app: Confab,
    actor: UserId,
    group: ConversationId,
    others: Sequence[UserId],
    decide: Decide,
    argument: str = "groupId",
) -> None:
    """Make the change that is decided on the group as it is. Durable when this returns.

    Args:
        app: The process's parts.
        actor: The member who changes the group.
        group: The group.
        others: Users whose memberships the decision needs.
        decide: The decision.
        argument: The input that names the group, for errors.

    Raises:
        NotFound: The group does not exist or is dismissed.
        NotAMember: The actor is no longer in it.
        Unreachable: Others keep changing the group.
    """
    attempt = partial(_try_to_carry_out, app, actor, group, others, decide, argument)
    await retry_until_true(attempt, "the group is being changed by many at once")


async def _try_to_carry_out(
    app: Confab, actor: UserId, group: ConversationId, others: Sequence[UserId], decide: Decide, argument: str
) -> bool:
    """Return False if the group was changed meanwhile, or is being changed."""
    store = app.store
    users = [actor, *(user for user in others if is_user_id(user))]
    snapshot = await store.conversations.find_group_snapshot(group, users)
    member = snapshot.members.get(actor) if snapshot is not None else None
    if snapshot is None or member is None or snapshot.head.dismissed:
        raise _no_group(argument)
    if not member.is_current:
        raise _left_group(argument)
    decision = decide(snapshot, member)
    if decision is None:
        return True
    message = Message(
        id=MessageId(store.ids.next()),
        conversation=group,
        sender=actor,
        kind=MessageKind.SYSTEM,
        text=decision.text or "",
        mentions=tuple(decision.about),
    )
    # A reserved change would be made later, when MongoDB has a primary and nobody expects it any more.
    store.mongo.require_primary()
    reserved = await store.outbox.reserve_change(
        message, snapshot.version, decision.change, announced=decision.text is not None
    )
    if isinstance(reserved, Refusal):
        return False
    try:
        await app.delivery.send(reserved)
    except Superseded:
        return False
    return True


def _no_group(argument: str) -> NotFound:
    return NotFound("there is no such group, or you were never in it", field=argument)


def _left_group(argument: str) -> NotAMember:
    return NotAMember("you are no longer in this group", field=argument)
