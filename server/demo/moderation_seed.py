"""Creates something to moderate in the demo's workspace. Every step may be repeated without effect."""

from __future__ import annotations

import math

from resolvers.base.app import Confab
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.moderation.ban_input import BanInput
from resolvers.moderation.banning import ban_user
from resolvers.reports.reporting import Subject, report
from resolvers.reports.resolving import resolve_report
from resolvers.users.callers import Caller, CallerRole
from resolvers.workspaces.membership.joining import join_workspace
from server.demo.workspace_world import BAN_REASON, BOAT_SPAM, LOTTERY_SPAM, OUTDATED_NOTE, SPAM_NOTE
from server.demo.world import BOATS, CAROL, DAVE, ERIN, LOTTERY
from store.base.ids import ConversationId, UserId, message_id
from store.base.workspace_ids import workspace_of_channel
from store.messages.message import Message
from store.reports.report import ReportAction, ReportReason


async def ban_demo_spammer(app: Confab, channel: ConversationId) -> None:
    """Report a stranger who advertises in a channel. Carol recalls the message, and bans them."""
    workspace = workspace_of_channel(channel)
    if await app.store.bans.find(workspace, BOATS, app.store.clock.now_ms()) is not None:
        return
    spam = await _join_and_write(app, BOATS, channel, BOAT_SPAM)
    made = await report(app, ERIN, Subject(message=message_id(spam.id)), ReportReason.SPAM, None)
    carol = Caller(CAROL, CallerRole.USER, math.inf)
    await resolve_report(app, carol, made.id, ReportAction.RECALL, None)
    await ban_user(app, carol, workspace, BOATS, BanInput(reason=BAN_REASON))


async def open_demo_reports(app: Confab, channel: ConversationId, outdated: Message) -> None:
    """Report another stranger who advertises in a channel, and an outdated message. Nobody has acted yet."""
    spam = await _join_and_write(app, LOTTERY, channel, LOTTERY_SPAM)
    await report(app, DAVE, Subject(message=message_id(outdated.id)), ReportReason.OTHER, OUTDATED_NOTE)
    await report(app, ERIN, Subject(message=message_id(spam.id)), ReportReason.SPAM, SPAM_NOTE)


async def _join_and_write(app: Confab, user: UserId, channel: ConversationId, text: str) -> Message:
    await join_workspace(app, user, workspace_of_channel(channel), None)
    key = "demo spam"
    sent = await app.store.messages.find_by_key(channel, user, key, 0)
    if sent is not None:
        return sent
    return (await send_message(app, user, NewMessage(None, channel, text, key=key))).message
