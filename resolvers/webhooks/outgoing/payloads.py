"""The body of an event: {type, timestamp, data}, made when it is sent, under the rights of that moment."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from resolvers.base.times import iso_text_or_none
from resolvers.conversations.access import is_expired
from resolvers.conversations.message_viewers import select_viewers
from resolvers.webhooks.outgoing.message_json import (
    Json,
    channel_json,
    group_json,
    message_json,
    reactions_json,
    report_json,
    users_of,
)
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, without_thread
from store.base.workspace_ids import WorkspaceId, is_in_workspace, workspace_of_channel
from store.messages.message import Message
from store.messages.system_events import SystemEventKind
from store.reports.report import Report, ReportId
from store.store import Store
from store.webhooks import event_rows
from store.webhooks.event_rows import WebhookEvent
from store.webhooks.webhook import Webhook, WebhookEventType
from store.workspaces.permissions import Permission
from store.workspaces.rights import rights_in_workspace


class Payloads:
    """Renders events under the present rights of the users who created the webhooks. All methods raise StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def render(self, webhook: Webhook, event: WebhookEvent) -> bytes | None:
        """Return the body of an event; None if it is not sent: its subject is gone, or not visible to the creator."""
        data = await self._data(webhook, event)
        if data is None:
            return None
        return orjson.dumps({"type": event.type, "timestamp": iso_text_or_none(event.at_ms), "data": data})

    async def _data(self, webhook: Webhook, event: WebhookEvent) -> Json | None:
        match event.type:
            case event_rows.GAP:
                since_ms, until_ms = event.reference
                return {"from": iso_text_or_none(since_ms), "until": iso_text_or_none(until_ms)}
            case WebhookEventType.CHANNEL_CHANGED:
                return await self._channel_data(webhook, event.conversation)
            case WebhookEventType.MEMBER_JOINED | WebhookEventType.MEMBER_LEFT if event.conversation.startswith("w_"):
                return await self._member_data(webhook, event)
            case WebhookEventType.GROUP_CHANGED:
                head = await self._store.conversations.find(event.conversation)
                group = group_json(head) if head is not None else None
                return {"group": group} if group is not None else None
            case WebhookEventType.REPORT_OPENED:
                return await self._report_data(webhook, ReportId(event.reference[0]))
            case _:
                return await self._message_data(webhook, event)

    async def _message_data(self, webhook: Webhook, event: WebhookEvent) -> Json | None:
        message = await self._find(event.conversation, event.reference[0])
        if message is None or not await self._may_read(webhook, message):
            return None
        match event.type:
            case WebhookEventType.REACTIONS_CHANGED:
                return {
                    "conversationId": message.conversation,
                    "messageId": message.public_id,
                    "seq": message.seq,
                    "reactions": reactions_json(message),
                }
            case WebhookEventType.MEMBER_JOINED | WebhookEventType.MEMBER_LEFT:
                return {"conversationId": message.conversation, "userIds": _concerned(message), "by": message.sender}
            case WebhookEventType.USER_OFFLINE_MESSAGE:
                return {"message": await self._message(message), "userIds": list(event.reference[1])}
            case _:
                return {"message": await self._message(message)}

    async def _message(self, message: Message) -> Json:
        users = await self._store.users.find_many(users_of(message))
        return message_json(message, users, await self._find_nickname(message))

    async def _find_nickname(self, message: Message) -> str | None:
        if kind_of(message.conversation) is not ConversationKind.CHANNEL:
            return None
        workspace = workspace_of_channel(message.conversation)
        found = await self._store.policies.find_members(workspace, [message.sender])
        facts = found.get(message.sender)
        return facts.nickname if facts is not None else None

    async def _may_read(self, webhook: Webhook, message: Message) -> bool:
        """Return whether the webhook covers the conversation, and its creator can read the message now.

        Webhooks of the deployment have been created by an admin, and may read everything.
        """
        if webhook.workspace is None:
            return True
        conversation = without_thread(message.conversation)
        if not is_in_workspace(conversation) or workspace_of_channel(conversation) != webhook.workspace:
            return False
        if webhook.channels and conversation not in webhook.channels:
            return False
        return bool(await select_viewers(self._store, message, [webhook.creator]))

    async def _channel_data(self, webhook: Webhook, channel: ConversationId) -> Json | None:
        if webhook.workspace is not None:
            rights = await self._store.channel_rights.find_present(webhook.creator, channel)
            return {"channel": channel_json(rights.channel)} if rights is not None else None
        workspace = workspace_of_channel(channel)
        version = await self._store.policies.current_version(workspace)
        policy = await self._store.policies.find(workspace, version or 0)
        found = policy.channels.get(channel) if policy is not None else None
        # Of a deleted channel, only the id is left.
        return {"channel": channel_json(found) if found is not None else {"id": channel, "workspaceId": workspace}}

    async def _member_data(self, webhook: Webhook, event: WebhookEvent) -> Json | None:
        workspace = WorkspaceId(event.conversation)
        if webhook.workspace is not None and not await self._is_member(workspace, webhook.creator):
            return None
        return {"workspaceId": workspace, "userIds": list(event.reference)}

    async def _report_data(self, webhook: Webhook, id: ReportId) -> Json | None:
        report = await self._store.reports.find(id)
        if report is None or not await self._may_see_reports(webhook, report):
            return None
        place = report.message
        message = await self._find(place.conversation, place.seq) if place is not None else None
        is_shown = message is not None and await self._may_read(webhook, message)
        users = await self._store.users.find_many({report.reporter, report.user})
        shown = await self._message(message) if message is not None and is_shown else None
        return {"report": report_json(report, users, shown)}

    async def _may_see_reports(self, webhook: Webhook, report: Report) -> bool:
        """Return whether the creator of a webhook has VIEW_REPORTS now. One of the deployment was made by an admin."""
        if webhook.workspace is None:
            return True
        if report.workspace != webhook.workspace:
            return False
        version = await self._store.policies.current_version(webhook.workspace)
        policy = await self._store.policies.find(webhook.workspace, version or 0)
        if policy is None or policy.is_deleted:
            return False
        facts = await self._store.policies.find_member(webhook.workspace, webhook.creator, policy.version)
        if facts is None:
            return False
        return Permission.VIEW_REPORTS in rights_in_workspace(policy, facts, self._store.clock.now_ms())

    async def _is_member(self, workspace: WorkspaceId, user: UserId) -> bool:
        version = await self._store.policies.current_version(workspace)
        if version is None:
            return False
        return await self._store.policies.find_member(workspace, user, version) is not None

    async def _find(self, conversation: ConversationId, seq: int) -> Message | None:
        """Return a message, unless it is expired."""
        found = (await self._store.messages.find_many([(conversation, seq)])).get((conversation, seq))
        return None if found is None or await is_expired(self._store, conversation, seq) else found


def _concerned(message: Message) -> Sequence[UserId]:
    """Return the users who have joined or left, by a SYSTEM message."""
    event = message.system_event
    if event is not None and event.kind is SystemEventKind.MEMBER_LEFT and not message.mentions:
        return [message.sender]
    return list(message.mentions)
