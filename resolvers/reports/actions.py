"""Actions that resolve reports: on the reported user, or the author of the reported message or file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from resolvers.base.app import Confab
from resolvers.base.errors import ConfabError, Forbidden, InvalidInput, NotAMember
from resolvers.messages.history import find_revisable
from resolvers.messages.recalling import recall
from resolvers.moderation.ban_input import BanInput
from resolvers.moderation.banning import ban_user
from resolvers.moderation.members import kick_member, timeout_member
from resolvers.users.callers import Caller
from resolvers.workspaces.access import access_workspace, check_right, no_permission
from store.audit.audit_note import AuditNote
from store.base.ids import UserId, is_webhook_user, message_id
from store.base.workspace_ids import WorkspaceId
from store.messages.message import Message, MessageKind
from store.reports.report import Report, ReportAction, ReportedMessage
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts

TIMEOUT_MS = 24 * 3600 * 1000
"""Duration of the time-out that resolves a report."""

_SAME_TIMEOUT_MS = 3600 * 1000
"""A time-out that ends up to this much earlier is kept: an interrupted call has set it, or it is long enough."""

_PERMISSIONS: Mapping[ReportAction, Permission] = MappingProxyType(
    {
        ReportAction.TIMEOUT: Permission.TIMEOUT_MEMBERS,
        ReportAction.KICK: Permission.KICK_MEMBERS,
        ReportAction.BAN: Permission.BAN_MEMBERS,
    }
)
"""The permission that each action on a member needs."""


async def check_action(app: Confab, caller: Caller, report: Report, action: ReportAction) -> None:
    """Check an action before it is begun.

    Raises InvalidInput if it does not fit the report, NotAMember if the user has left the workspace, and Forbidden if
    the caller may not do it.
    """
    if action is ReportAction.NONE:
        return
    if action is ReportAction.RECALL:
        await _find_recallable(app, caller, report)
        return
    if is_webhook_user(report.user):
        raise _does_not_fit("the author is a webhook; delete the webhook instead")
    if report.workspace is not None:
        access = await access_workspace(app, caller.user_id, report.workspace)
        check_right(app, access, _PERMISSIONS[action])
        needs_member = action is not ReportAction.BAN and report.begun_action is not action
        if needs_member and await _find_member(app, report.workspace, report.user) is None:
            raise NotAMember("this user is not a member of the workspace any more", field="reportId")
    elif action is not ReportAction.BAN:
        raise _does_not_fit("the report belongs to no workspace: use BAN, RECALL or NONE")


async def do_action(app: Confab, caller: Caller, report: Report, action: ReportAction, reason: str | None) -> None:
    """Do an action. Where it is done already, nothing changes. Raises what its own mutation raises."""
    match action:
        case ReportAction.RECALL:
            await _recall(app, caller, report, reason)
        case ReportAction.TIMEOUT:
            await _time_out(app, caller, report, reason)
        case ReportAction.KICK:
            await _kick(app, caller, report, reason)
        case ReportAction.BAN:
            await _ban(app, caller, report, reason)


async def _recall(app: Confab, caller: Caller, report: Report, reason: str | None) -> None:
    message, version = await _find_recallable(app, caller, report)
    if message.is_recalled:
        return
    shown = {"conversationId": message.conversation, "messageIds": [message.public_id]}
    entries = await app.store.audit.record(
        AuditNote(caller.user_id, "recallMessages", report.workspace, message.sender, after=shown, reason=reason)
    )

    async def check() -> int | None:
        return (await _find_recallable(app, caller, report))[1]

    try:
        await recall(app, message, caller.user_id, check, version)
    except ConfabError:
        # The moderator lost the right meanwhile.
        await app.store.audit.withdraw(entries)
        raise


async def _time_out(app: Confab, caller: Caller, report: Report, reason: str | None) -> None:
    """Let the user only read for 24 hours. A longer time-out stays."""
    assert report.workspace is not None
    until_ms = app.store.clock.now_ms() + TIMEOUT_MS
    facts = await _find_member(app, report.workspace, report.user)
    if facts is not None and facts.timed_out_until_ms > until_ms - _SAME_TIMEOUT_MS:
        return
    await timeout_member(app, caller.user_id, report.workspace, report.user, until_ms, reason)


async def _kick(app: Confab, caller: Caller, report: Report, reason: str | None) -> None:
    assert report.workspace is not None
    # If they are not a member any more, another call has kicked them, perhaps one that was interrupted.
    with suppress(NotAMember):
        await kick_member(app, caller.user_id, report.workspace, report.user, reason)


async def _ban(app: Confab, caller: Caller, report: Report, reason: str | None) -> None:
    """Ban the user for good. A ban for good stays as it is."""
    before = await app.store.bans.find(report.workspace, report.user, app.store.clock.now_ms())
    if before is None or before.until_ms is not None:
        await ban_user(app, caller, report.workspace, report.user, BanInput(reason=reason))


async def _find_member(app: Confab, workspace: WorkspaceId, user: UserId) -> MemberFacts | None:
    version = await app.store.policies.current_version(workspace)
    return await app.store.policies.find_member(workspace, user, version) if version is not None else None


async def _find_recallable(app: Confab, caller: Caller, report: Report) -> tuple[Message, int | None]:
    """Return the message to recall: of the copy of a reply, the reply. And the policy version judged under.

    In a workspace the caller has to see the message and to have MANAGE_MESSAGES there. Admins need neither.
    """
    reported = report.message
    if reported is None:
        raise _does_not_fit("it is about no message; choose another one")
    if report.workspace is None:
        message, version = await _find_stored(app, reported), None
    else:
        message, version = await _find_in_workspace(app, caller.user_id, reported)
    if message.kind is MessageKind.SYSTEM:
        raise _does_not_fit("SYSTEM messages can't be recalled; choose another one")
    return message, version


async def _find_in_workspace(app: Confab, user: UserId, reported: ReportedMessage) -> tuple[Message, int]:
    found = await find_revisable(app, user, message_id(reported.id))
    if found is None:
        await _find_stored(app, reported)
        raise Forbidden("you can't see the message, so you can't recall it; choose another action")
    message, access = found
    if access.rights is None or not access.rights.may(Permission.MANAGE_MESSAGES):
        raise no_permission(Permission.MANAGE_MESSAGES)
    return message, access.rights.policy.version


async def _find_stored(app: Confab, reported: ReportedMessage) -> Message:
    """Return a message without a check of rights. Raises InvalidInput if it is not stored any more."""
    place = (reported.conversation, reported.seq)
    message = (await app.store.messages.find_many([place])).get(place)
    if message is not None and message.broadcast_of is not None:
        message = await app.delivery.find_reply(message)
    if message is None:
        raise _does_not_fit("the message does not exist any more; choose another one")
    return message


def _does_not_fit(reason: str) -> InvalidInput:
    return InvalidInput(f"this action does not fit the report: {reason}", field="action")
