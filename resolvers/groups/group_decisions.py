"""Decisions about groups, and their execution.

A change is decided on a snapshot of the group and made only if the group is still the same. If two changes conflict,
the later one is decided again on the result of the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from resolvers.base.app import Confab
from resolvers.base.errors import NotAMember, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.conversations.access import Access, access_conversation
from store.audit.audit_note import AuditNote
from store.base.errors import Superseded
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, is_user_id, kind_of
from store.conversations.conversation import GroupSnapshot, Member
from store.conversations.group_change import ProposedChange
from store.messages.message import Message, MessageKind
from store.messages.outbox.places import Refusal
from store.messages.system_events import SystemEvent
from store.redis.single_flight import retry_until_true


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """A change to make, and the SYSTEM message that announces it.

    `event`: None if no message announces the change. `text`: the text of the message. `about`: the users that it
    mentions, who are the targets of the event. `audit`: the note for the audit log, stored with the change.
    """

    change: ProposedChange
    event: SystemEvent | None = None
    text: str = ""
    about: Sequence[UserId] = ()
    audit: AuditNote | None = None


Decide = Callable[[GroupSnapshot, Member], GroupDecision | None]
"""Decides on a change that a member wants to make. Raises an error for the caller; returns None if nothing changes."""


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
    """Make the change that `decide` returns for the present state of the group. It is durable when this returns.

    Args:
        app: The parts of the process.
        actor: The member who changes the group.
        group: The group.
        others: Users whose memberships the decision needs.
        decide: Returns the change.
        argument: The name of the input with the group's id, for errors.

    Raises:
        NotFound: The group does not exist or is dismissed.
        NotAMember: The actor is no longer in it.
        Unreachable: Other changes of the group kept conflicting with this one.
    """
    attempt = partial(_try_to_carry_out, app, actor, group, others, decide, argument)
    await retry_until_true(attempt, "too many changes of the group at the same time")


async def _try_to_carry_out(
    app: Confab, actor: UserId, group: ConversationId, others: Sequence[UserId], decide: Decide, argument: str
) -> bool:
    """Make one attempt. Return False if another change of the group was made meanwhile, or is pending."""
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
        text=decision.text,
        mentions=tuple(decision.about),
        system_event=decision.event,
    )
    change = decision.change
    if decision.audit is not None:
        (row,) = store.audit.entry_rows(decision.audit)
        change = replace(change, audit=row)
    # Without a primary, a reserved change would be made later, when the caller no longer expects it.
    store.mongo.require_primary()
    reserved = await store.outbox.reserve_change(
        message, snapshot.version, change, announced=decision.event is not None
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
